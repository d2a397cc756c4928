"""A broadcast and a command to many go to what the list shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tui.cockpit import Stage, cockpit, take_steps_anew
from zoea.model.enums import MysisState
from zoea.settings.early_defaults import EARLY
from zoea.settings.schema import Settings
from zoea.tui.dialogs.modal import ConfirmDialog
from zoea.tui.swarm_list import message_targets
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.message_prompt import MessagePrompt


async def keep_only(stage: Stage, text: str) -> None:
    await stage.press("slash")
    await stage.enter(text)


async def recipients(stage: Stage) -> list[str]:
    rows = await stage.swarm.rows(
        "SELECT name FROM delivery JOIN mysis ON mysis.id = mysis_id WHERE deleted_at IS NULL ORDER BY name"
    )
    return [row["name"] for row in rows]


async def a_broadcast_goes_to_the_myses_that_the_filter_shows(stage: Stage) -> None:
    await keep_only(stage, "bet")
    await stage.press("b")
    assert "BROADCAST to 1 (filter 'bet': beta)" in stage.text()
    await stage.enter("mine")
    await stage.until(lambda: stage.view("beta").turns == 1)
    assert await recipients(stage) == ["beta"]


async def test_recipients_and_cost_can_be_read_in_a_small_terminal(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(80, 24)) as stage:
        await stage.api.stop("alpha")
        await stage.until(lambda: stage.view("alpha").state == "stopped")
        await stage.press("b")
        await stage.until(
            lambda: "the cost of a turn is not known yet" in " ".join(stage.text().replace("│", "").split())
        )
        await stage.press("f2", shows="alpha cannot receive it (stopped)")


async def capital_b_speaks_to_all_while_a_filter_is_on(stage: Stage) -> None:
    await keep_only(stage, "bet")
    await stage.press("B")
    assert "BROADCAST to all 3 myses" in stage.text()
    await stage.enter("mine")
    await stage.until(lambda: all(view.turns == 1 for view in stage.app.feed.myses.values()))


async def marks_come_before_the_filter(stage: Stage) -> None:
    await stage.press("space")
    await keep_only(stage, "bet")
    await stage.press("b")
    assert "BROADCAST to 1 (marked: alpha)" in stage.text()


async def a_filter_without_a_match_opens_no_prompt(stage: Stage) -> None:
    await keep_only(stage, "nobody")
    await stage.press("b")
    assert "No mysis matches the filter 'nobody'; B speaks to all" in stage.notices
    assert not stage.one(MessagePrompt).is_open


async def a_typed_broadcast_goes_to_the_filtered_too(stage: Stage) -> None:
    await keep_only(stage, "gam")
    await stage.press("colon")
    await stage.enter("broadcast dig")
    await stage.until(lambda: stage.view("gamma").turns == 1)
    assert await recipients(stage) == ["gamma"]


async def a_broadcast_to_many_asks_once_and_keeps_the_text_after_a_no(stage: Stage) -> None:
    stage.app.early = EARLY._replace(ask_above=2)
    await stage.press("b")
    await stage.enter("mine")
    assert stage.shows(ConfirmDialog)
    assert "Broadcast to all 3 myses?" in stage.text()
    await stage.press("escape")
    assert stage.one(MessagePrompt).text == "mine"
    assert await recipients(stage) == []
    await stage.press("enter", "y", until=lambda: all(view.turns == 1 for view in stage.app.feed.myses.values()))


@pytest.mark.parametrize("way", ["prompt", "command"])
async def test_a_broadcast_that_needs_more_than_a_budget_has_left_asks(tmp_path: Path, way: str) -> None:
    budget = {"swarm_per_day": 3_500, "swarm_enforcement": "soft"}
    settings = Settings.model_validate({"nudge": {"enabled": False}, "budget": budget})
    async with cockpit(tmp_path, settings=settings) as stage:
        await stage.api.send("alpha", "mine")
        await stage.until(lambda: stage.view("alpha").turns == 1)
        await stage.press("b" if way == "prompt" else "colon")
        await stage.enter("dig" if way == "prompt" else "broadcast dig")
        await stage.until(lambda: stage.shows(ConfirmDialog))
        words = stage.one(TextBlock, "#words").plain
        assert "Broadcast to all 3 myses?" in words
        assert "The budget of the swarm today (budget.swarm_per_day) has" in words
        assert "then its requests are delayed" in words
        assert await recipients(stage) == ["alpha"]
        await stage.press("y", until=lambda: stage.view("beta").turns == 1)


async def a_broadcast_whose_round_costs_much_asks(stage: Stage) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(message_targets, "ASK_ABOVE_TOKENS", 30)
        await stage.press("b")
        await stage.enter("x" * 44)
        assert stage.shows(ConfirmDialog)
        await stage.press("y", until=lambda: all(view.turns == 1 for view in stage.app.feed.myses.values()))


async def a_command_to_many_marked_myses_asks(stage: Stage) -> None:
    stage.app.early = EARLY._replace(ask_above=2)
    await stage.press("asterisk", "s", shows=ConfirmDialog)
    assert "Stop 3 myses: alpha, beta, gamma?" in stage.text()
    await stage.press("escape")
    assert all(view.state is MysisState.RUNNING for view in stage.app.feed.myses.values())
    await stage.press("s", shows=ConfirmDialog)
    await stage.press("y")
    await stage.until(lambda: all(v.state is MysisState.STOPPED for v in stage.app.feed.myses.values()))


async def stop_all_stops_what_the_filter_shows_and_says_so(stage: Stage) -> None:
    await keep_only(stage, "bet")
    await stage.press("X")
    assert "press X again to stop 1 (filter 'bet'), not the other 2" in stage.text()
    await stage.press("X", until=lambda: stage.view("beta").state is MysisState.STOPPED)
    assert stage.view("alpha").state is MysisState.RUNNING


async def z_undoes_a_stop_of_several(stage: Stage) -> None:
    await stage.press("space", "space", "s", until=lambda: len(stage.undoable) == 2)
    await stage.press("z")
    await stage.until(lambda: all(v.state is MysisState.RUNNING for v in stage.app.feed.myses.values()))
    assert stage.notices[-1] == "alpha and beta started again"


async def an_undo_of_a_stop_starts_only_those_that_ran(stage: Stage) -> None:
    await stage.api.start("alpha")
    await stage.until(lambda: stage.view().state is MysisState.RUNNING)
    await stage.press("asterisk", "s")
    await stage.until(lambda: all(v.state is MysisState.STOPPED for v in stage.app.feed.myses.values()))
    await stage.until(lambda: [name for _, name in stage.undoable] == ["alpha"])
    await stage.press("z", until=lambda: stage.view().state is MysisState.RUNNING)
    assert stage.view("beta").state is MysisState.STOPPED


async def p_pauses_one_mysis_and_resumes_it(stage: Stage) -> None:
    await stage.press("j", "p", until=lambda: stage.view("beta").held)
    assert not stage.view("alpha").held
    await stage.press("p", until=lambda: not stage.view("beta").held)


async def a_typed_hold_with_a_name_pauses_that_mysis(stage: Stage) -> None:
    await stage.press("colon")
    await stage.enter("hold gamma")
    await stage.until(lambda: stage.view("gamma").held)
    assert stage.notices[-1] == "gamma paused"
    await stage.press("z", until=lambda: not stage.view("gamma").held)


async def test_broadcasts_go_to_what_the_list_shows(tmp_path: Path) -> None:
    await take_steps_anew(
        tmp_path,
        a_broadcast_goes_to_the_myses_that_the_filter_shows,
        capital_b_speaks_to_all_while_a_filter_is_on,
        marks_come_before_the_filter,
        a_filter_without_a_match_opens_no_prompt,
        a_typed_broadcast_goes_to_the_filtered_too,
        a_broadcast_whose_round_costs_much_asks,
        an_undo_of_a_stop_starts_only_those_that_ran,
        a_broadcast_to_many_asks_once_and_keeps_the_text_after_a_no,
    )


async def test_commands_to_running_myses_go_to_what_the_list_shows(tmp_path: Path) -> None:
    await take_steps_anew(
        tmp_path,
        stop_all_stops_what_the_filter_shows_and_says_so,
        z_undoes_a_stop_of_several,
        p_pauses_one_mysis_and_resumes_it,
        a_typed_hold_with_a_name_pauses_that_mysis,
        a_command_to_many_marked_myses_asks,
        start=True,
    )
