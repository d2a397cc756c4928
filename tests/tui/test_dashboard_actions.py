"""The actions of the dashboard, key by key, over a real swarm."""

from __future__ import annotations

from pathlib import Path

from tests.swarm.harness import plain
from tests.tui.cockpit import Stage, asks_when_told, cockpit, take_steps_anew
from tests.tui.test_approvals import ask
from zoea.llm.providers.scripted import Rule
from zoea.model.enums import ErrorClass, MysisState
from zoea.model.errors import ProviderError
from zoea.model.request import Answer, ModelRequest
from zoea.tui.dialogs.modal import ConfirmDialog
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.widgets.message_prompt import MessagePrompt
from zoea.tui.widgets.swarm_table import SwarmTable


def refusing(request: ModelRequest) -> Answer | ProviderError:
    return ProviderError("the key is wrong", kind=ErrorClass.AUTH)


def names(stage: Stage) -> list[str]:
    return [view.name for view in stage.one(SwarmTable).shown]


async def errored(tmp_path: Path, stage: Stage, name: str = "alpha") -> None:
    await stage.api.send(name, "go")
    await stage.until(lambda: stage.view(name).state is MysisState.ERRORED)


async def space_marks_the_mysis_under_the_cursor_and_goes_on(stage: Stage) -> None:
    await stage.press("space", "space")
    assert stage.app.marks == {stage.view("alpha").id, stage.view("beta").id}


async def star_marks_all_that_are_shown_then_none(stage: Stage) -> None:
    await stage.press("asterisk")
    assert len(stage.app.marks) == 3
    await stage.press("asterisk")
    assert stage.app.marks == set()


async def escape_takes_the_marks_off_and_stops_nothing(stage: Stage) -> None:
    await stage.press("space", "escape", "escape")
    assert stage.app.marks == set()
    assert stage.view("alpha").state is MysisState.RUNNING


async def s_stops_the_mysis_under_the_cursor_and_no_other(stage: Stage) -> None:
    await stage.press("j", "s", until=lambda: stage.view("beta").state is MysisState.STOPPED)
    assert stage.view("alpha").state is MysisState.RUNNING


async def s_stops_the_marked(stage: Stage) -> None:
    await stage.press("space", "space", "s", until=lambda: stage.view("beta").state is MysisState.STOPPED)
    await stage.until(lambda: stage.view("alpha").state is MysisState.STOPPED)
    assert stage.view("gamma").state is MysisState.RUNNING


async def r_relaunches_stopped_myses(stage: Stage) -> None:
    await stage.api.stop("alpha")
    await stage.until(lambda: stage.view().state is MysisState.STOPPED)
    await stage.press("r", until=lambda: stage.view().state is MysisState.RUNNING)


async def a_refused_key_says_why(stage: Stage) -> None:
    await stage.press("r")
    assert stage.notices == ["relaunch: It already runs; m sends it a message"]


async def test_without_myses_every_action_that_needs_one_says_so(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=()) as stage:
        await stage.press("escape")
        for key in ("m", "s", "r", "D", "full_stop", "space", "i"):
            before = len(stage.notices)
            await stage.press(key)
            assert "There is no mysis yet: press n" in stage.notices[before]


async def test_a_dot_dismisses_the_error_of_the_row(tmp_path: Path) -> None:
    async with cockpit(tmp_path, refusing) as stage:
        await errored(tmp_path, stage)
        await stage.until(lambda: stage.view().failure is not None)
        await stage.press("full_stop", until=lambda: stage.view().failure is None)


async def test_a_puts_those_that_need_you_first_and_back(tmp_path: Path) -> None:
    async with cockpit(tmp_path, asks_when_told) as stage:
        await ask(stage, "gamma")
        await stage.until(lambda: stage.view("gamma").approvals)
        await stage.press("a")
        assert names(stage) == ["gamma", "alpha", "beta"]
        assert "those that need you first · a sorts oldest first" in stage.text()
        await stage.press("a")
        assert names(stage) == ["alpha", "beta", "gamma"]


async def a_slash_filters_while_typing_and_escape_shows_all(stage: Stage) -> None:
    await stage.press("slash")
    await stage.write("ga")
    assert names(stage) == ["gamma"]
    assert "1 of 3 with 'ga'" in stage.text()
    await stage.write("zz")
    await stage.until(lambda: "No mysis matches the filter: esc shows all" in stage.text())
    await stage.press("escape")
    assert names(stage) == ["alpha", "beta", "gamma"]


async def enter_keeps_the_filter_and_keys_mean_actions_again(stage: Stage) -> None:
    await stage.press("slash")
    await stage.write("ga")
    await stage.press("enter", "s", until=lambda: stage.view("gamma").state is MysisState.STOPPED)
    assert names(stage) == ["gamma"]
    await stage.press("escape")
    assert len(names(stage)) == 3


async def letters_typed_into_the_filter_do_nothing_else(stage: Stage) -> None:
    await stage.press("slash")
    await stage.write("sdxXro")
    assert all(view.state is MysisState.RUNNING for view in stage.app.feed.myses.values())
    assert stage.shows(DashboardScreen)


async def marks_outside_the_filter_still_count(stage: Stage) -> None:
    await stage.press("space", "slash")
    await stage.write("gamma")
    await stage.press("enter", "D")
    assert "Delete alpha?" in stage.text()


async def d_names_who_is_deleted_and_does_nothing_until_confirmed(stage: Stage) -> None:
    await stage.press("space", "space", "D")
    assert stage.shows(ConfirmDialog)
    assert "Delete alpha, beta?" in stage.text()
    assert "Their names become free." in stage.text()
    await stage.press("escape", "escape", "D")
    assert "A turn that has not ended is cut off." in stage.text()
    assert "Its name becomes free. Its memories are kept: z undoes this," in stage.text()
    await stage.press("escape")
    assert stage.has("alpha", "beta", "gamma")
    assert stage.shows(DashboardScreen)


async def y_deletes_and_z_restores_the_whole_batch(stage: Stage) -> None:
    await stage.press("space", "space", "D", "y")
    await stage.until(lambda: len(stage.undoable) == 2 and not stage.has("alpha") and not stage.has("beta"))
    await stage.press("z", until=lambda: stage.has("alpha", "beta", "gamma"))
    assert stage.notices[-1] == "alpha and beta restored"
    newest = "SELECT deleted_at FROM mysis WHERE id IN (SELECT max(id) FROM mysis GROUP BY name)"
    assert [row["deleted_at"] for row in await stage.swarm.rows(newest)] == [None] * 3


async def an_undo_that_is_refused_can_be_tried_again(stage: Stage) -> None:
    await stage.press("D", "y", until=lambda: len(stage.app.undo) == 1)
    await stage.api.create("alpha", start=False)
    await stage.press("z", until=lambda: stage.notices and "was given to another" in stage.notices[-1])
    assert [name for _, name in stage.undoable] == ["alpha"]


async def z_without_anything_to_undo_says_so(stage: Stage) -> None:
    await stage.press("z")
    assert stage.notices == ["undo: There is nothing to undo"]


async def stop_all_needs_two_presses_and_shows_the_first(stage: Stage) -> None:
    await stage.press("X")
    assert "press X again to stop all 3" in stage.text()
    assert all(view.state is MysisState.RUNNING for view in stage.app.feed.myses.values())
    await stage.press("X")
    await stage.until(lambda: all(v.state is MysisState.STOPPED for v in stage.app.feed.myses.values()))


async def test_a_second_press_that_comes_too_late_stops_nothing(tmp_path: Path) -> None:
    now = [100.0]
    async with cockpit(tmp_path, start=True, seconds=lambda: now[0]) as stage:
        await stage.press("X")
        now[0] += 2.1
        await stage.press("X")
        assert all(view.state is MysisState.RUNNING for view in stage.app.feed.myses.values())
        assert "again to stop all" in stage.text()


async def another_key_between_the_two_presses_cancels_the_first(stage: Stage) -> None:
    await stage.press("X", "j", "X")
    assert all(view.state is MysisState.RUNNING for view in stage.app.feed.myses.values())


async def x_holds_the_swarm_and_resumes_it(stage: Stage) -> None:
    await stage.press("x", shows="ON HOLD")
    assert "x resume" in stage.text()
    await stage.press("x", until=lambda: "ON HOLD" not in stage.text())


async def test_the_panel_of_wide_terminals_names_who_needs_you(tmp_path: Path) -> None:
    rules: list[Rule] = [lambda r: refusing(r) if plain(r.messages[-1].content) == "go" else None, asks_when_told]
    async with cockpit(tmp_path, rules, size=(160, 40)) as stage:
        assert "NEEDS YOU" not in stage.text()
        await ask(stage, "gamma")
        await errored(tmp_path, stage, "beta")
        await stage.until(lambda: "NEEDS YOU" in stage.text() and "the key is wrong" in stage.text())
        text = stage.text()
        assert "gamma  asks" in text
        assert 'burn(text="burn it")' in text
        assert "2 need you" in text


async def below_60_by_16_it_shows_its_size_and_ignores_keys(stage: Stage) -> None:
    await stage.pilot.resize_terminal(59, 18)
    await stage.until(lambda: "Terminal too small" in stage.text() and "59x18, needs 60x16" in stage.text())
    await stage.press("s", "X", "X")
    assert all(view.state is MysisState.RUNNING for view in stage.app.feed.myses.values())
    await stage.pilot.resize_terminal(100, 30)
    await stage.until(lambda: stage.shows(DashboardScreen))


async def a_draft_outlives_a_terminal_that_was_too_small(stage: Stage) -> None:
    await stage.press("m")
    await stage.write("half a ")
    await stage.pilot.resize_terminal(60, 15)
    await stage.until(lambda: "too small" in stage.text())
    await stage.pilot.resize_terminal(100, 30)
    await stage.until(lambda: stage.shows(DashboardScreen))
    await stage.write("thought")
    assert stage.one(MessagePrompt).text == "half a thought"


async def marks_are_counted_in_the_title_and_the_commanded_myses_are_named(stage: Stage) -> None:
    await stage.press("j", "j", "space")
    assert "SWARM · 1 marked " in stage.text()
    await stage.press("slash")
    await stage.enter("alpha")
    assert "SWARM · 1 of 3 with 'alpha' · 1 marked (1 hidden)" in stage.text()
    await stage.press("s", until=lambda: stage.notices == ["gamma stopped"])
    await stage.until(lambda: stage.view("gamma").state is MysisState.STOPPED)  # a receipt may come before the news
    assert stage.view("alpha").state is MysisState.RUNNING
    await stage.press("escape", "asterisk", "s", until=lambda: stage.notices[1:] == ["alpha and beta stopped"])
    await stage.until(lambda: all(v.state is MysisState.STOPPED for v in stage.app.feed.myses.values()))
    await stage.press("r", until=lambda: stage.notices[2:] == ["3 myses started"])
    await stage.press("escape")
    assert "marked" not in stage.text()


async def test_marks_that_scrolling_hides_are_counted_as_hidden(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=[f"m{number}" for number in range(30)], size=(80, 24)) as stage:
        await stage.press("space")
        assert "SWARM · 1 marked " in stage.text()
        await stage.press("G")
        assert "SWARM · 1 marked (1 hidden)" in stage.text()


async def test_actions_of_idle_myses_key_by_key(tmp_path: Path) -> None:
    await take_steps_anew(
        tmp_path,
        space_marks_the_mysis_under_the_cursor_and_goes_on,
        star_marks_all_that_are_shown_then_none,
        r_relaunches_stopped_myses,
        a_slash_filters_while_typing_and_escape_shows_all,
        marks_outside_the_filter_still_count,
        y_deletes_and_z_restores_the_whole_batch,
        an_undo_that_is_refused_can_be_tried_again,
        z_without_anything_to_undo_says_so,
        x_holds_the_swarm_and_resumes_it,
        a_draft_outlives_a_terminal_that_was_too_small,
    )


async def test_actions_of_running_myses_key_by_key(tmp_path: Path) -> None:
    await take_steps_anew(
        tmp_path,
        escape_takes_the_marks_off_and_stops_nothing,
        s_stops_the_mysis_under_the_cursor_and_no_other,
        s_stops_the_marked,
        a_refused_key_says_why,
        enter_keeps_the_filter_and_keys_mean_actions_again,
        letters_typed_into_the_filter_do_nothing_else,
        d_names_who_is_deleted_and_does_nothing_until_confirmed,
        stop_all_needs_two_presses_and_shows_the_first,
        another_key_between_the_two_presses_cancels_the_first,
        marks_are_counted_in_the_title_and_the_commanded_myses_are_named,
        below_60_by_16_it_shows_its_size_and_ignores_keys,
        start=True,
    )
