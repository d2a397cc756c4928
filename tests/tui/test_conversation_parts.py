"""The parts under a conversation's screen: lines and places, marks over them, windows of turns, streams, wrapping."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tests.case_tables import walk_cases
from tests.tui.sample_turns import START
from zoea.model.enums import MysisState
from zoea.model.values import Mysis
from zoea.queries.request_summary import MysisContext, PackSummary, RequestSummary, ToolSnapshot
from zoea.store.store import Store
from zoea.swarm.live_view import LiveMysis
from zoea.tui.conversation import focus_lines
from zoea.tui.conversation.blocks import BlockKind, ConversationBlock
from zoea.tui.conversation.conversation_reader import (
    MOST_MEMORIES,
    ConversationSource,
    TurnWindow,
    read_around,
    read_newer,
    read_newest,
    read_older,
)
from zoea.tui.conversation.line_index import LineIndex, LinePosition
from zoea.tui.text_layout import wrap_words
from zoea.tui.widgets.live_answer import find_continuation
from zoea.tui.widgets.strip_overlay import find_occurrences, restyle_span

BOLD = Style(bold=True)
WRITER = Mysis(1, "u", "alpha", "default", b"", "scripted", "", MysisState.RUNNING, "", 0)


def roll(*heights: int) -> LineIndex:
    blocks = [ConversationBlock(f"b{place}", BlockKind.ANSWER, 1) for place in range(len(heights))]
    return LineIndex(
        blocks,
        [tuple(Strip([Segment(f"{place}.{line}")]) for line in range(height)) for place, height in enumerate(heights)],
    )


class TestRoll:
    def test_each_line_belongs_to_its_block(self) -> None:
        made = roll(2, 1, 3)
        texts = [strip.text for strip in map(made.strip, range(made.height)) if strip is not None]
        assert texts == ["0.0", "0.1", "1.0", "2.0", "2.1", "2.2"]
        assert made.strip(6) is None
        assert made.strip(-1) is None

    def test_a_block_is_found_by_line_even_outside_the_range(self) -> None:
        made = roll(2, 1, 3)
        assert [block.key for block in map(made.block_at, (-5, 0, 2, 3, 99)) if block] == ["b0", "b0", "b1", "b2", "b2"]
        assert LineIndex().block_at(0) is None
        assert LineIndex().spot(0) is None

    def test_a_position_survives_new_blocks_above_it(self) -> None:
        spot = roll(2, 3).spot(4)
        assert spot == LinePosition("b1", 2)
        assert roll(7, 3).line_of(spot) == 9
        assert roll(7, 2).line_of(spot) == 8
        assert roll(7).line_of(spot) is None

    def test_a_span_excludes_the_blank_line(self) -> None:
        made = roll(2, 3)
        assert made.span("b1") == (3, 5)
        assert made.span("none") is None
        assert made.strips("none") == ()


class TestOverlay:
    STRIP = Strip([Segment("ab"), Segment("漢字", BOLD), Segment("cd")])

    @walk_cases(("start", "end"), [(0, 1), (1, 5), (2, 4), (0, -1), (3, 99)])
    def test_restyling_keeps_text_and_width(self, start: int, end: int) -> None:
        drawn = restyle_span(self.STRIP, start, end, Style(reverse=True))
        assert drawn.text == self.STRIP.text
        assert drawn.cell_length == 8
        marked = "".join(segment.text for segment in drawn if segment.style and segment.style.reverse)
        assert marked == self.STRIP.text[start : None if end < 0 else end]

    def test_an_empty_span_changes_nothing(self) -> None:
        assert restyle_span(self.STRIP, 4, 4, BOLD) is self.STRIP

    @walk_cases(
        ("text", "words", "places"),
        [
            ("Iron iron IRON", "iron", [(0, 4), (5, 9), (10, 14)]),
            ("Iron iron IRON", "Iron", [(0, 4)]),
            ("aaa", "aa", [(0, 2)]),
            ("aaa aAb", "a", [(0, 3), (4, 6)]),
            ("İx x", "x", [(1, 2), (3, 4)]),
            ("abc", "", []),
        ],
    )
    def test_occurrences_match_like_the_search(self, text: str, words: str, places: list[tuple[int, int]]) -> None:
        assert list(find_occurrences(text, words)) == places


class TestStreaming:
    @walk_cases(
        ("shown", "tail", "before", "new"),
        [
            (0, "The belt", 0, "The belt"),
            (3, "The belt", 0, " belt"),
            (8, "The belt", 0, ""),
            (8, "belt is rich", 4, " is rich"),
            (8, "Another answer", 9, None),
            (8, "The", 0, None),
            (1, "a\u202eb", 0, "\\u202eb"),
            (2, "👩\u200d💻", 0, None),
        ],
    )
    def test_the_new_part_of_a_growing_text_is_returned(
        self, shown: int, tail: str, before: int, new: str | None
    ) -> None:
        assert find_continuation(shown, tail, before) == new

    @given(st.lists(st.integers(1, 6000), min_size=1, max_size=6), st.integers(1, 9000))
    def test_a_tail_that_moves_loses_no_text_and_repeats_none(self, lengths: list[int], most: int) -> None:
        row, text, end = LiveMysis(WRITER), "", 0
        pieces = [("iron " * length)[:length] for length in lengths]
        for piece in pieces:
            row.stream(piece)
            view = row.freeze(most=most)
            more = find_continuation(end, view.streaming, view.streamed_before)
            assert (more is None) is (len(piece) > len(view.streaming))
            text = view.streaming if more is None else text + more
            end = view.streamed_before + len(view.streaming)
        assert "".join(pieces).endswith(text)
        assert end == len("".join(pieces))

    def test_the_next_answer_continues_none_although_it_begins_alike(self) -> None:
        row = LiveMysis(WRITER)
        row.stream("Iron. ")
        end = len(row.freeze().streaming)
        row.clear_stream()
        row.stream("Iron. Iron. ")
        view = row.freeze()
        assert find_continuation(end, view.streaming, view.streamed_before) is None


class TestWrapping:
    @given(st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc")), max_size=300), st.integers(8, 60))
    def test_wrapped_lines_fit_and_keep_every_word(self, text: str, width: int) -> None:
        lines = list(wrap_words(text, width))
        assert all(cell_len(line) <= width for line in lines)
        assert "".join("".join(lines).split()) == "".join(text.split())

    def test_words_that_fit_are_not_broken(self) -> None:
        assert list(wrap_words("one two three", 8)) == ["one two", "three"]
        assert list(wrap_words("漢字 テスト", 8)) == ["漢字", "テスト"]

    def test_wrapping_keeps_indentation(self) -> None:
        assert list(wrap_words("    return x", 20)) == ["    return x"]
        assert list(wrap_words("\tx\n\ny", 20)) == ["    x", "", "y"]

    def test_a_line_of_a_megabyte_is_wrapped(self) -> None:
        assert sum(1 for _ in wrap_words("x" * 1_000_000, 100)) == 10_000


class TestWindow:
    @pytest.fixture
    async def source(self, tmp_path: Path) -> ConversationSource:
        """A mysis with 300 turns of four memories each."""
        path = tmp_path / "zoea.db"
        store = await Store.open(path, clock_now=lambda: START)
        await store.close()
        with closing(sqlite3.connect(path)) as conn, conn:
            conn.execute("INSERT INTO template VALUES (zeroblob(32), 't', '', 1)")
            conn.execute(
                "INSERT INTO mysis(id, uid, name, template_hash, provider, model, state, state_at, created_at)"
                " VALUES (1, 'u', 'alpha', zeroblob(32), 'p', 'm', 'idle', 1, 1)"
            )
            for number in range(1, 301):
                _add_turn(conn, number)
        return ConversationSource(path, 1, START)

    async def test_a_full_window_drops_turns_at_the_other_end(self, source: ConversationSource) -> None:
        window = read_newest(source)
        assert window.turns[-1].number == 300
        while window.has_older:
            window = read_older(source, window)
            assert sum(len(turn.entries) for turn in window.turns) <= MOST_MEMORIES
            assert _numbers(window) == list(range(window.turns[0].number, window.turns[-1].number + 1))
        assert window.turns[0].number == 1
        assert _ends(window) == (False, True)
        while window.has_newer:
            window = read_newer(source, window)
            assert sum(len(turn.entries) for turn in window.turns) <= MOST_MEMORIES
            assert _numbers(window) == list(range(window.turns[0].number, window.turns[-1].number + 1))
        assert window.turns[-1].number == 300
        assert _ends(window) == (True, False)

    async def test_new_turns_are_added_and_loaded_ones_are_kept(self, source: ConversationSource) -> None:
        window = read_newest(source)
        before = window.turns
        with closing(sqlite3.connect(source.database)) as conn, conn:
            _add_turn(conn, 301)
        window = read_newer(source, window)
        assert _numbers(window) == [*[turn.number for turn in before], 301]
        assert {block.turn for block in window.blocks} == set(_numbers(window))

    async def test_a_window_around_a_turn_has_older_and_newer_turns(self, source: ConversationSource) -> None:
        window = read_around(source, 150)
        assert 150 in _numbers(window)
        assert _ends(window) == (True, True)

    async def test_an_unknown_mysis_has_an_empty_window(self, source: ConversationSource) -> None:
        nobody = ConversationSource(source.database, 2, START)
        assert read_newest(nobody).blocks == ()
        assert read_older(nobody, TurnWindow()) == TurnWindow()
        assert read_newer(nobody, TurnWindow()).turns == ()


def _ends(window: TurnWindow) -> tuple[bool, bool]:
    return window.has_older, window.has_newer


def _numbers(window: TurnWindow) -> list[int]:
    return [turn.number for turn in window.turns]


def _add_turn(conn: sqlite3.Connection, number: int) -> None:
    conn.execute(
        "INSERT INTO turn(id, mysis_id, number, opened_by, frozen, outcome, opened_at, ended_at)"
        " VALUES (?, 1, ?, 'prompt', '{}', 'answered', ?, ?)",
        (number, number, START, START),
    )
    for seq in range(1, 5):
        conn.execute(
            "INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, tokens, created_at)"
            " VALUES (1, ?, ?, ?, ?, 'x', 1, ?)",
            (number, seq, "user" if seq == 1 else "assistant", "direct" if seq == 1 else "llm", START),
        )


class TestSight:
    def test_a_detail_of_the_header_that_would_be_cut_to_a_few_letters_is_left_out(self) -> None:
        pieces = [("alpha  held", ""), (" · its call finishes before it rests", "")]
        assert focus_lines.shorten(pieces, 40) == [pieces[0], (" · its call finishes before …", "")]
        assert focus_lines.shorten(pieces, 26) == [pieces[0], ("", "")]

    def test_the_panels_say_that_there_was_no_request(self) -> None:
        assert focus_lines.build_request_lines(MysisContext()) == [[("No request yet", "quiet")]]
        assert focus_lines.build_snapshot_lines(MysisContext(), START) == [
            [("No tool has read the state of the world yet", "quiet")]
        ]

    def test_packs_show_their_size_and_form(self) -> None:
        packs = (
            PackSummary("system", 900, 900, "full", "required", False, ""),
            PackSummary("history", 1800, 4000, "compact", "budget", False, "budget.token_budget_per_agent = 60000"),
            PackSummary("situation", 0, 0, "", "empty", False, ""),
            PackSummary("said", 0, 90, "", "budget", False, ""),
            PackSummary("turn", 11_400, 11_400, "full", "required", True, ""),
        )
        seen = RequestSummary(1, 42, 4, START, packs, 2, 14_800, 50_000, 14_300, 31_000, "settled", "transient")
        lines = ["".join(text for text, _ in line) for line in focus_lines.build_request_lines(MysisContext(seen))]
        assert lines[0] == "request ~14.8k of 50k tokens (counted: 14.3k)"
        assert [line.split()[-1] for line in lines[2:6]] == ["full", "compact", "out", "cut"]
        assert "turn 42, request 4  31k tokens so far" in lines
        assert "2 messages not sent in full" in lines
        assert "last calls: budget.token_budget_per_agent = 60000 would have kept it whole" in lines
        assert "the request failed: likely temporary" in lines
        assert not any("no model wrote" in line for line in lines)
        lines_only = replace(seen, summary_failure="it needs budget.background = 900, which is 50")
        assert [
            ("no model wrote the summary: ", "waiting"),
            ("it needs budget.background = 900, which is 50", "quiet"),
        ] in focus_lines.build_request_lines(MysisContext(lines_only))
        for error, words in (("", "not counted yet"), ("auth", "no tokens counted")):
            uncounted = replace(seen, turn_tokens=0, state="released" if error else "sent", error_class=error)
            assert (f"  {words}", "quiet") in [
                piece for line in focus_lines.build_request_lines(MysisContext(uncounted)) for piece in line
            ]
        unsent = replace(seen, state="released", error_class="cancelled")
        assert [("the request was never sent", "waiting")] in focus_lines.build_request_lines(MysisContext(unsent))

    @walk_cases(
        ("content", "shown"),
        [
            ('{"fuel": 78, "cargo": [1, 2], "at": {"x": 1}}', "fuel 78   cargo 2 items   at 1 field"),
            ("{}", "empty"),
            ("plain\n[/] text", "plain [/] text"),
            ("[1, 2]", "[1, 2]"),
            ('{"a": ' * 2000, ('{"a": ' * 2000)[:300]),
        ],
    )
    def test_a_snapshot_shows_its_fields_and_its_age(self, content: str, shown: str) -> None:
        lines = focus_lines.build_snapshot_lines(
            MysisContext(None, (ToolSnapshot("get_ship", content, START - 12_000_000),)), START
        )
        assert "".join(text for text, _ in lines[0]) == "get_ship  12s ago"
        assert "".join(text for text, _ in lines[1]) == shown

    def test_a_line_break_never_separates_a_name_from_its_value(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(focus_lines, "WIDTH", 30)
        content = '{"system_id": "s33", "place": "p98", "name": "漢字", "note": "It regrows slowly once taken."}'
        lines = focus_lines.build_snapshot_lines(MysisContext(None, (ToolSnapshot("get_ship", content, START),)), START)
        shown = ["".join(text for text, _ in line) for line in lines[1:]]
        assert shown == ["system_id s33   place p98", "name 漢字", "note It regrows slowly once taken."]
