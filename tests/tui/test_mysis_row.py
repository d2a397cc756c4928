"""Rows and detail lines of a mysis: causes, time left, ages, calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace
from textual.geometry import Offset
from textual.selection import Selection

from tests.case_tables import walk_cases
from tests.tui.cockpit import cockpit
from tests.tui.test_roster import PLAIN
from zoea.model.enums import Activity, MysisState
from zoea.model.values import Failure, MysisView
from zoea.queries.status_phrases import describe_wait
from zoea.tui import number_format
from zoea.tui.conversation.blocks import BlockKind, ConversationBlock
from zoea.tui.conversation.focus_lines import build_activity_pieces, build_failure_lines
from zoea.tui.conversation.recent_lines import build_recent_lines, build_usage_lines
from zoea.tui.swarm_list import attention
from zoea.tui.swarm_list.mysis_row import (
    RowColumns,
    TableRow,
    build_heading,
    build_row,
    build_turn_budget,
    describe_model,
    describe_player,
)
from zoea.tui.terminal.terminal_control import build_title
from zoea.tui.text_layout import plain_lines, strip_emphasis
from zoea.tui.widgets.mysis_detail import build_brief_line
from zoea.tui.widgets.mysis_detail import format_state as detail_doing
from zoea.tui.widgets.swarm_table import SwarmTable

NOW = 10_000 * number_format.SECOND
CAUSE = "429 from ollama"


def ago(seconds: float) -> int:
    return NOW - round(seconds * number_format.SECOND)


def line(view: MysisView, width: int = 78) -> str:
    return "".join(text for text, _ in build_row(TableRow(view, now=NOW), RowColumns.of(width), {}))


def plain(pieces: tuple[list[tuple[str, str]], list[tuple[str, str]]]) -> str:
    left, right = pieces
    return "".join(text for text, _ in left) + " |" + "".join(text for text, _ in right)


ERRORED = replace(PLAIN, state=MysisState.ERRORED, failure=Failure("rate", "The provider failed", CAUSE, "Wait."))
RUNNING = replace(PLAIN, state=MysisState.RUNNING, in_turn=True, turn_number=4, iteration=2, turn_limit=200_000)


def test_an_error_shows_its_cause_or_its_title_if_the_cause_is_unknown() -> None:
    assert CAUSE in line(ERRORED)
    retried = line(replace(ERRORED, retry_at=NOW + 27 * number_format.SECOND, retry_count=1))
    assert "retrying in 27s" in retried
    assert f"1st retry: {CAUSE}" in retried
    assert attention.attention_reason(ERRORED) == CAUSE
    assert attention.attention_reason(replace(ERRORED, state=MysisState.IDLE)) == CAUSE
    assert CAUSE in build_title("reef", [ERRORED])
    assert build_activity_pieces(ERRORED, NOW) == [(CAUSE, "errored")]
    assert build_activity_pieces(replace(ERRORED, state=MysisState.IDLE), NOW) == [(CAUSE, "quiet")]
    assert build_recent_lines((), ERRORED, 60, 9, NOW)[0][1] == (CAUSE, "errored")
    assert "The provider failed" in line(replace(ERRORED, failure=Failure("rate", "The provider failed")))


def test_a_failure_leaves_out_cause_and_advice_if_the_conversation_ends_with_it() -> None:
    def said(**more: Any) -> list[str]:
        return ["".join(text for text, _ in pieces) for pieces in build_failure_lines(ERRORED, "✖", "r", NOW, **more)]

    assert ERRORED.failure is not None
    plan = "Zoea does not try again by itself"
    whole, what_to_do = said()
    assert whole.startswith(f"✖ {CAUSE}  {ERRORED.failure.title}  since ")
    assert what_to_do.strip() == f"{plan}  {ERRORED.failure.hint}  r relaunch"
    (line,) = said(is_told=True)
    assert (line.startswith("✖ since "), line.endswith(f")  {plan}  r relaunch")) == (True, True)
    assert said(is_told=True, width=54)[1] == f"  {plan}  r relaunch"
    assert build_failure_lines(replace(ERRORED, state=MysisState.RUNNING), "✖", "r", NOW) == []


def test_a_failure_is_shown_in_full_beside_the_list_if_there_is_room() -> None:
    what, hint = "local could not be reached: the connection was refused", "Check that it runs and where it listens."
    failed = replace(
        ERRORED, provider="local", failure=Failure("ProviderError", "The provider cannot be reached", what, hint)
    )

    def shown(height: int) -> list[str]:
        return ["".join(text for text, _ in line) for line in build_recent_lines((), failed, 32, height, NOW)]

    whole = " ".join(line.strip() for line in shown(12))
    assert whole.startswith(f"{what} The provider cannot be reached since ")
    assert whole.endswith(f"Zoea does not try again by itself {hint}")
    assert [line[:2] for line in shown(12)] == ["  "] * len(shown(12))
    assert len(shown(3)) == 2, "where there is none the cause comes first"
    assert shown(3)[0].startswith("  local could not be reached")
    assert all(line.endswith("…") for line in shown(3))


def test_the_time_left_stands_in_the_time_column_and_is_never_cut() -> None:
    waiting = replace(
        RUNNING, waiting_until=NOW + 18 * number_format.SECOND, waiting_for="arrives at Halcyon, T1204, cruise"
    )
    assert "waiting  in 18s" in line(waiting)
    failure = Failure("rate", "", "429 from a provider far away, which says a lot about it")
    retried = replace(ERRORED, failure=failure, retry_at=NOW + 27 * number_format.SECOND)
    assert "retrying in 27s" in line(retried)
    assert "in 27s" not in line(replace(retried, held=True))
    assert " paused " in line(replace(retried, held=True))


def test_a_row_shows_tags_before_its_text() -> None:
    tagged = replace(PLAIN, text="digs", tags=("north", "ore"))
    assert "#north #ore digs" in line(tagged, 160)
    assert "#north" not in line(tagged)
    many = line(replace(tagged, tags=tuple(f"tag-{number}" for number in range(20))), 160)
    assert "digs" in many
    assert len(many) == len(line(PLAIN, 160))


def test_a_wait_is_described_in_words_instead_of_field_names() -> None:
    assert describe_wait("arrival_tick 302") == describe_wait("travel_arrival_tick 302") == "arrives at tick 302"
    assert describe_wait("cooldown_ticks 3") == "cooldown, 3 ticks"
    assert describe_wait("laser_ready_tick 12.5") == "laser ready until tick 12.5"
    assert (describe_wait("tick 7"), describe_wait("ticks 7")) == ("until tick 7", "7 ticks")
    assert describe_wait("the kiln\ncools") == "the kiln cools"
    assert describe_wait("") == "as it asked"


def test_a_row_names_the_model_or_says_that_there_is_none() -> None:
    assert describe_model("qwen3:8b", "ollama") == "qwen3:8b on ollama"
    assert describe_model("", "ollama") == "ollama's own model"
    assert describe_model("", "autopilot") == describe_model("autopilot", "autopilot") == "autopilot (no model)"


@walk_cases(
    ("model", "answered_by", "player"),
    [
        ("", "", "opencode (agent)"),
        ("reef-1", "opencode", "opencode (agent)"),
        ("reef-1", "reef-large", "reef-large on opencode (agent)"),
    ],
)
def test_the_agent_that_plays_a_mysis_stands_in_its_row_and_detail(model: str, answered_by: str, player: str) -> None:
    """Not the provider of its template, which it may not use."""
    view = replace(PLAIN, provider="openai", model=model, answered_by=answered_by, agent="opencode", tags=("north",))
    assert describe_player(view) == player
    assert plain(build_brief_line(view, NOW))[: -len(" |")].endswith(f" · {player}")
    assert "by opencode #north" in line(view, 160)
    assert "openai" not in line(view, 160)


def test_a_row_has_one_time_and_the_detail_the_age_of_the_text() -> None:
    said = replace(RUNNING, text="It is done", text_at=ago(1800), progress_at=ago(2))
    assert "30m" not in line(said, 116)
    assert "working      2s" in line(said, 116)
    assert "".join(text for text, _ in build_heading(RowColumns.of(116))).split()[:3] == ["name", "status", "time"]
    assert len(build_heading(RowColumns.of(116))[0][0]) == len(line(said, 116)) == 116
    assert "last text 30m ago" in plain(build_brief_line(said, NOW))
    assert detail_doing(said, NOW) == "working · turn 4, request 2 · last text 30m ago"
    assert detail_doing(replace(said, streaming="It is"), NOW) == "working · turn 4, request 2"
    reading = replace(said, reading=46)
    assert detail_doing(reading, NOW) == "working (reading 46 %) · turn 4, request 2", "the row shows another text"


def test_the_line_of_a_running_mysis_shows_its_call_and_its_budget() -> None:
    calling = replace(RUNNING, activity=Activity.TOOL, text='⚙ mine(belt="b2")', text_at=ago(1.2), turn_tokens=41_000)
    assert plain(build_brief_line(calling, NOW)) == '⚙ mine(belt="b2") |  1.2 s  this turn 41k/200k tokens'
    after = replace(calling, activity=Activity.LLM, text_at=ago(65))
    assert plain(build_brief_line(after, NOW)) == '⚙ mine(belt="b2") |  1m ago  this turn 41k/200k tokens'
    assert "".join(text for text, _ in build_turn_budget(RUNNING)) == "turn budget ────────── 0/200k tokens"
    assert build_turn_budget(replace(RUNNING, state=MysisState.IDLE)) == []
    lines = [
        "".join(text for text, _ in pieces) for pieces in build_usage_lines(None, replace(RUNNING, tokens=91_000), 9)
    ]
    assert lines[-2:] == ["turn budget ────────── 0/200k tokens", "91k tokens in all"]


def test_an_answer_keeps_its_lines_without_emphasis_marks() -> None:
    said = "## Report\n\n- price at **Halcyon**: *14* a unit\n- `a**b**c` and snake_case_name, 2 * 3 * 4\n"
    assert plain_lines(said) == [
        "Report",
        "- price at Halcyon: 14 a unit",
        "- `a**b**c` and snake_case_name, 2 * 3 * 4",
    ]
    assert strip_emphasis("__all__ of **it") == "all of **it"
    block = ConversationBlock("said", BlockKind.ANSWER, 0, body=said)
    assert [cells[1][0] for cells in build_recent_lines([block], PLAIN, 60, 9, NOW)] == plain_lines(said)
    streamed = build_recent_lines((), replace(RUNNING, streaming=said), 60, 9, NOW)
    assert [cells[1][0] for cells in streamed] == plain_lines(said)


def test_a_table_stands_in_columns() -> None:
    said = "Found:\n\n| step | does |\n|:-----|---:|\n| `a\\|b` | **splits** |\n| 表 | |\nEnd | it"
    assert plain_lines(said) == ["Found:", "step    does", "`a\\|b`  splits", "表", "End | it"]
    assert plain_lines("| a | b |\n| c | d |") == ["| a | b |", "| c | d |"]


def test_the_last_answer_has_the_room_that_is_left() -> None:
    blocks = [ConversationBlock(key, BlockKind.ANSWER, 0, body="1\n2\n3\n4\n5\n6") for key in ("first", "last")]
    shown = ["".join(text for text, _ in line).strip() for line in build_recent_lines(blocks, PLAIN, 60, 12, NOW)]
    assert shown == ["1", "2", "3", "4 …", "1", "2", "3", "4", "5", "6"]
    short = build_recent_lines(blocks, PLAIN, 60, 8, NOW)
    assert [line[1][0] for line in short] == ["2", "3", "4 …", "1", "2", "3", "4", "5 …"]


async def test_text_of_rows_can_be_selected(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        table = stage.one(SwarmTable)
        stage.screen.selections = {table: Selection(Offset(3, 0), Offset(7, 1))}
        await stage.pilot.pause()
        first, second = (stage.screen.get_selected_text() or "").splitlines()
        assert first.startswith("alpha")
        assert second == " ⬡ beta"[: len(second)]
        region = table.region
        await stage.pilot.mouse_down(offset=(region.x + 3, region.y + 1))
        await stage.pilot.hover(offset=(region.x + 7, region.y + 1))
        await stage.pilot.mouse_up(offset=(region.x + 7, region.y + 1))
        await stage.until(lambda: (stage.screen.get_selected_text() or "").startswith("beta"))


def test_myses_in_need_are_sorted_by_urgency() -> None:
    asking = replace(RUNNING, activity=Activity.ASKING, approvals=1)
    stopped = replace(PLAIN, state=MysisState.STOPPED, state_reason="loop")
    broken = replace(PLAIN, failure=Failure("open", "The breaker is open"))
    order = [asking, ERRORED, stopped, broken, replace(asking, questions=1)]
    views = [replace(view, id=number) for number, view in enumerate(order, 1)]
    assert attention.list_needing_attention(reversed([*views, PLAIN])) == views
    assert attention.attention_rank(replace(asking, approvals=2, questions=1)) == 0


def test_an_unknown_context_window_is_marked_in_the_row_and_told_in_the_detail() -> None:
    used = replace(PLAIN, context_used=900, context_limit=37_500, window_assumed=8_192, provider="near")
    assert "~900/37.5k?" in line(used, 120)
    brief = plain(build_brief_line(used, NOW))
    assert "context window not known: 8,192 tokens are assumed; set provider.near.context_window" in brief
    assert "37.5k?" not in line(replace(used, window_assumed=0), 120)


def test_numbers_of_the_context_are_rounded_instead_of_cut() -> None:
    used = replace(PLAIN, context_used=120_800, context_limit=128_700)
    assert "121k/129k" in line(used)
    assert "120.8k" not in line(used)
