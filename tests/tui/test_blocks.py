"""A turn as blocks, and blocks as lines: what a reader of a conversation sees, and what no text can do to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.case_tables import walk_cases
from tests.tui.sample_turns import HOSTILE, SECOND, START, answer, call, noted, prompt, result, turn
from zoea.model.enums import DONE_TOOL, MASK, CallState, MessageKind, OpenedBy, Outcome, SenderKind
from zoea.model.values import Failure, Sender
from zoea.tui.conversation import markdown_lines
from zoea.tui.conversation.block_painter import LINES, PaintOptions, paint_block
from zoea.tui.conversation.blocks import (
    BlockKind,
    BodyFormat,
    ConversationBlock,
    build_turn_blocks,
)
from zoea.tui.theme import themes
from zoea.tui.theme.role_styles import ConversationPalette

MYSIS = Sender(SenderKind.MYSIS, 2, "beta")


@pytest.fixture
def palette(tmp_path: Path) -> ConversationPalette:
    return ConversationPalette(themes.load_themes(tmp_path)[0][themes.DEFAULT])


def kinds(blocks: tuple[ConversationBlock, ...]) -> list[str]:
    return [str(block.kind) for block in blocks]


def head(block: ConversationBlock) -> str:
    return "".join(text for text, _ in block.head)


def lines(
    block: ConversationBlock, palette: ConversationPalette, *, width: int = 80, is_open: bool | None = None
) -> list[str]:
    manner = PaintOptions(width, palette)
    strips = paint_block(block, manner, is_open=block.is_open if is_open is None else is_open)
    return [strip.text.rstrip() for strip in strips]


class TestBlocks:
    def test_a_turn_has_blocks_for_rule_prompt_reasoning_answer_and_calls(self) -> None:
        blocks = build_turn_blocks(
            turn(prompt(1, "Mine iron"), answer(2, "I mine", call(5), reasoning="hm"), result(3, 5, "ok")), START
        )
        assert kinds(blocks) == ["turn", "prompt", "reasoning", "answer", "call"]

    def test_the_rule_shows_sender_calls_tokens_and_duration(self) -> None:
        rule = build_turn_blocks(turn(prompt(1, "Mine", sender=MYSIS), answer(2, "", call(5))), START)[0]
        assert head(rule).startswith("turn 1")
        assert head(rule).endswith("from beta")
        assert rule.right[0][0] == "1 tool call · 8.2k tokens · 14 s"

    def test_estimated_tokens_are_marked(self) -> None:
        rule = build_turn_blocks(turn(prompt(1, "x"), is_estimate=True), START)[0]
        assert "~8.2k" in rule.right[0][0]

    def test_a_broadcast_is_marked(self) -> None:
        rule = build_turn_blocks(turn(prompt(1, "x", kind=MessageKind.BROADCAST)), START)[0]
        assert head(rule).endswith("broadcast from you")

    def test_a_nudge_has_no_prompt(self) -> None:
        blocks = build_turn_blocks(turn(answer(1, "on"), opened_by=OpenedBy.NUDGE, nudge_level=2), START)
        assert kinds(blocks) == ["turn", "answer"]
        assert head(blocks[0]).endswith("nudge 2")

    def test_several_prompts_show_sender_and_time_each(self) -> None:
        client = Sender(SenderKind.CLIENT, None, "web")
        blocks = build_turn_blocks(turn(prompt(1, "a"), prompt(2, "b", seq=2, sender=client)), START)
        assert head(blocks[1]).endswith("from you")
        assert head(blocks[2]).endswith("from client web")

    def test_a_prompt_during_a_turn_is_marked(self) -> None:
        blocks = build_turn_blocks(turn(prompt(1, "a"), answer(2, "x"), prompt(3, "wait", seq=3)), START)
        assert head(blocks[-1]).endswith("during the turn")

    def test_reasoning_is_folded_with_its_length_and_time(self) -> None:
        block = build_turn_blocks(turn(answer(2, "x", reasoning="y" * 1200)), START)[1]
        assert block.folds
        assert not block.is_open
        assert head(block) == "reasoning  1.4 s · 1.2 kB"

    def test_a_call_shows_its_arguments_its_time_and_its_size(self, palette: ConversationPalette) -> None:
        block = build_turn_blocks(turn(answer(2, "", call(5)), result(3, 5, "x" * 2100)), START)[-1]
        (line,) = lines(block, palette)[1:]
        assert '⚙ mine(belt="b-2")' in line
        assert line.endswith("✓  0.4 s   2.1 kB ▸")

    def test_a_result_carries_the_tick_that_it_tells(self, palette: ConversationPalette) -> None:
        told = turn(answer(2, "", call(5)), result(3, 5, "ok"))
        block = build_turn_blocks(told, START, {3: 41_708.0})[-1]
        assert lines(block, palette)[1].endswith("tick 41708  ✓  0.4 s      2 B ▸")

    def test_injected_arguments_are_not_shown(self, palette: ConversationPalette) -> None:
        mined = call(5, arguments=json.dumps({"session_id": MASK, "belt": "b-2"}))
        block = build_turn_blocks(turn(answer(2, "", mined), result(3, 5, "ok")), START)[-1]
        assert '⚙ mine(belt="b-2")' in lines(block, palette)[1]

    @pytest.mark.parametrize(
        ("state", "words"),
        [
            (CallState.PENDING, "queued"),
            (CallState.APPROVAL, "asks you"),
            (CallState.SENT, "running 3.0 s"),
            (CallState.UNKNOWN, "result unknown"),
            (CallState.DENIED, "denied"),
            (CallState.CANCELLED, "cancelled"),
        ],
    )
    def test_a_call_without_a_result_shows_its_state_and_its_arguments(
        self, state: CallState, words: str, palette: ConversationPalette
    ) -> None:
        made = call(5, state=state, ended_at=None)
        block = build_turn_blocks(turn(answer(2, "", made)), START + 3 * SECOND)[-1]
        assert words in "".join(text for text, _ in block.right)
        assert lines(block, palette, is_open=True)[2:] == ['      belt: "b-2"']

    def test_an_open_call_shows_its_arguments_whole_and_then_its_result(self, palette: ConversationPalette) -> None:
        values = {"path": "a.py", "content": "x = 1\n" + "y" * 100, "session_id": MASK}
        written = call(5, "write_file", json.dumps(values))
        block = build_turn_blocks(turn(answer(2, "", written), result(3, 5, "ok")), START)[-1]
        assert [line.strip() for line in lines(block, palette, is_open=True)[2:]] == [
            'path: "a.py"',
            "content:",
            "│ x = 1",
            "│ " + "y" * 69,
            "y" * 31,
            "result:",
            "ok",
        ]

    def test_a_report_as_done_is_an_answer(self, palette: ConversationPalette) -> None:
        reported = call(5, DONE_TOOL, json.dumps({"summary": "**All** of it.\n\n- one\n- two"}))
        block = build_turn_blocks(turn(answer(2, "", reported), result(3, 5, "You are done.")), START)[-1]
        assert (block.key, block.kind) == ("call 5", BlockKind.ANSWER)
        assert [line.strip() for line in lines(block, palette)[1:]] == [
            "✓ reports its task as done",
            "All of it.",
            "",
            "• one",
            "• two",
        ]

    def test_a_diff_in_a_result_is_coloured(self, palette: ConversationPalette) -> None:
        diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b"
        for text in (diff, json.dumps({"diff": diff, "ok": True})):
            block = build_turn_blocks(turn(answer(2, "", call(5)), result(3, 5, text)), START)[-1]
            strips = paint_block(block, PaintOptions(80, palette), is_open=True)
            colours = {segment.text: segment.style for strip in strips for segment in strip}
            assert (colours["-a"], colours["+b"]) == (palette.style("-"), palette.style("+"))

    def test_a_folded_error_shows_its_first_words(self, palette: ConversationPalette) -> None:
        made = call(5, state=CallState.ERROR)
        block = build_turn_blocks(turn(answer(2, "", made), result(3, 5, "The entry must\ncontain text.")), START)[-1]
        assert lines(block, palette)[-1] == "      The entry must contain text."

    def test_a_cut_off_answer_is_marked(self) -> None:
        block = build_turn_blocks(turn(answer(2, "half", partial=True), outcome=Outcome.CANCELLED), START)[1]
        assert head(block) == "cut off before it was an answer"

    def test_cut_off_reasoning_is_marked(self) -> None:
        blocks = build_turn_blocks(turn(answer(2, "", reasoning="half", partial=True)), START)
        assert kinds(blocks) == ["turn", "reasoning", "note"]

    def test_an_empty_answer_is_shown_as_empty(self) -> None:
        block = build_turn_blocks(turn(answer(2, " ")), START)[-1]
        assert (block.kind, block.body) == (BlockKind.ANSWER, "empty answer")

    @walk_cases("outcome", [one for one in Outcome if one is not Outcome.ANSWERED])
    def test_every_other_outcome_is_described(self, outcome: Outcome) -> None:
        failure = Failure("quota", "No tokens left", "the day's budget is used", "raise it")
        block = build_turn_blocks(turn(answer(2, "x"), outcome=outcome, failure=failure), START)[-1]
        assert block.kind is BlockKind.OUTCOME
        assert block.body == "No tokens left\nthe day's budget is used\nraise it"

    def test_an_interrupted_turn_says_that_it_continues_later(self) -> None:
        block = build_turn_blocks(turn(answer(2, "x"), outcome=None, ended_at=None, broke_off="timeout"), START)[-1]
        assert "a relaunch continues this turn" in head(block)

    def test_a_note_is_shown_at_its_place_in_the_turn(self) -> None:
        made = turn(prompt(1, "a"), answer(2, "x", seq=2), answer(4, "y", seq=4), notes=(noted(2, "loop", "again"),))
        assert kinds(build_turn_blocks(made, START)) == ["turn", "prompt", "answer", "note", "answer"]

    def test_the_last_attempt_is_not_told_beside_the_failure_that_followed(self) -> None:
        failure = Failure("ProviderError", "The provider is overloaded", "local answered 503")
        notes = (noted(1, "attempt 5", "local answered 503"),)
        made = turn(prompt(1, "a"), outcome=Outcome.FAILED, failure=failure, notes=notes)
        assert kinds(build_turn_blocks(made, START)) == ["turn", "prompt", "outcome"]
        assert kinds(build_turn_blocks(replace(made, outcome=None, failure=None), START))[-1] == "note"

    def test_copying_a_block_gives_its_plain_text(self) -> None:
        blocks = build_turn_blocks(turn(prompt(1, "Mine"), answer(2, "**ok**", call(5)), result(3, 5, "r")), START)
        assert [block.copy for block in blocks] == ["Mine", "Mine", "**ok**", 'mine({"belt": "b-2"})\nr']


class TestPainting:
    def test_open_json_is_drawn_as_a_tree(self, palette: ConversationPalette) -> None:
        content = json.dumps({"items": [{"id": "iron", "buy": 5.1}, {"id": "copper", "buy": 9}], "none": [], "t": True})
        block = build_turn_blocks(turn(answer(2, "", call(5)), result(3, 5, content)), START)[-1]
        assert lines(block, palette, is_open=True, width=60)[2:] == [
            "      ├─ items: 2 items",
            "      │  ├─ id iron  buy 5.1",
            "      │  └─ id copper  buy 9",
            "      ├─ none: []",
            "      └─ t: true",
        ]

    def test_invalid_json_is_drawn_as_text(self, palette: ConversationPalette) -> None:
        block = build_turn_blocks(turn(answer(2, "", call(5)), result(3, 5, "{not json}")), START)[-1]
        assert lines(block, palette, is_open=True)[-1] == "      {not json}"

    def test_deeply_nested_json_is_drawn(self, palette: ConversationPalette) -> None:
        block = ConversationBlock(
            "x", BlockKind.CALL, 1, body='{"a":' * 900 + "1" + "}" * 900, shape=BodyFormat.JSON, folds=True
        )
        assert lines(block, palette, is_open=True)

    def test_a_long_result_is_cut_and_names_the_key_for_more(self, palette: ConversationPalette) -> None:
        block = ConversationBlock("x", BlockKind.CALL, 1, body="line\n" * 1000, folds=True)
        shown = lines(block, palette, is_open=True)
        assert len(shown) == LINES + 2
        assert "v shows more" in shown[-1]

    def test_the_size_of_unread_text_is_shown(self, palette: ConversationPalette) -> None:
        block = build_turn_blocks(turn(answer(2, "", call(5)), result(3, 5, "x", chars=50_001)), START)[-1]
        assert lines(block, palette, is_open=True)[-1] == "      … 50.0 kB more: enter reads it"

    def test_a_folded_turn_is_one_line_with_its_first_words(self, palette: ConversationPalette) -> None:
        rule = build_turn_blocks(turn(prompt(1, "Stay off Belt-1."), answer(2, "ok")), START)[0]
        (line,) = lines(rule, palette, is_open=False)[1:]
        assert "Stay off Belt-1." in line
        assert line.endswith("▸")

    def test_markdown_keeps_breaks_html_entities_and_definitions(self, palette: ConversationPalette) -> None:
        text = "one\ntwo <b>x</b> &lt; list[int] [/]\n\n[a]: http://b.example"
        block = ConversationBlock("x", BlockKind.ANSWER, 1, body=text, shape=BodyFormat.MARKDOWN)
        shown = [line.strip() for line in lines(block, palette) if line.strip()]
        assert shown == ["one", "two <b>x</b> &lt; list[int] [/]", "[a]: http://b.example"]

    @pytest.mark.parametrize("fence", ["```diff", "```"])
    def test_a_diff_in_an_answer_has_the_colours_of_its_lines(self, palette: ConversationPalette, fence: str) -> None:
        text = f"Done:\n\n{fence}\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n```\n\n```\n- a list\n```"
        rendered = markdown_lines.render_markdown(text, 80, palette)
        assert rendered is not None
        colours = {part.text.strip(): part.style.color for line in rendered for part in line if part.style}
        roles = {"same": "tool", "-old": "errored", "+new": "ok", "- a list": "tool"}
        assert {word: colours[word] for word in roles} == {w: palette.style(role).color for w, role in roles.items()}

    def test_markdown_that_would_lose_text_is_drawn_as_text(self, palette: ConversationPalette) -> None:
        assert markdown_lines.render_markdown("> " * 200 + "deep", 80, palette) is None
        block = ConversationBlock("x", BlockKind.ANSWER, 1, body="> " * 200 + "deep", shape=BodyFormat.MARKDOWN)
        assert "deep" in "\n".join(lines(block, palette))

    @pytest.mark.parametrize(
        "text",
        ["```python call the shell\nx = 1\n```", '[a](http://b.example "call the shell")', "![a](call-the-shell)"],
    )
    def test_nothing_short_hides_in_markdown(self, text: str, palette: ConversationPalette) -> None:
        body = f"{'A long answer that nobody misses. ' * 20}\n\n{text}"
        block = ConversationBlock("x", BlockKind.ANSWER, 1, body=body, shape=BodyFormat.MARKDOWN)
        assert "call the shell" in "\n".join(lines(block, palette)).replace("-", " ")

    def test_code_is_drawn_unchanged(self, palette: ConversationPalette) -> None:
        block = ConversationBlock(
            "x", BlockKind.ANSWER, 1, body="```python\ndef f():\n    return [1]\n```", shape=BodyFormat.MARKDOWN
        )
        assert [line[4:] for line in lines(block, palette)[1:]] == [" def f():", "     return [1]"]

    def test_links_emit_no_escape_sequences(self, palette: ConversationPalette) -> None:
        block = ConversationBlock("x", BlockKind.ANSWER, 1, body="[a](http://b.example)", shape=BodyFormat.MARKDOWN)
        strips = paint_block(block, PaintOptions(80, palette), is_open=True)
        assert all(segment.style is None or segment.style.link is None for strip in strips for segment in strip)

    @pytest.mark.parametrize("text", HOSTILE)
    @pytest.mark.parametrize("width", [45, 75, 200])
    def test_no_text_leaves_its_lines_or_moves_the_cursor(
        self, text: str, width: int, palette: ConversationPalette
    ) -> None:
        sender = replace(MYSIS, name=text[:40] or "x")
        made = turn(
            prompt(1, text, sender=sender),
            prompt(2, text, seq=2, sender=sender),
            answer(3, text, call(5, name=text, arguments=text), seq=3, reasoning=text),
            result(4, 5, text),
            notes=(noted(9, "loop", text),),
            outcome=Outcome.FAILED,
            failure=Failure("x", text, text, text),
        )
        for block in build_turn_blocks(made, START):
            for is_open in (True, False):
                for strip in paint_block(block, PaintOptions(width, palette, verbose=True), is_open=is_open):
                    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in strip.text)
                    assert strip.cell_length <= width

    def test_every_theme_draws_every_block_kind(self, tmp_path: Path) -> None:
        made = turn(prompt(1, "a"), answer(2, "# h\n- x\n\n`c`\n\n|a|\n|-|\n|b|", call(5), reasoning="r"))
        for look in themes.load_themes(tmp_path)[0].values():
            for block in build_turn_blocks(made, START):
                assert paint_block(block, PaintOptions(80, ConversationPalette(look)), is_open=True)
