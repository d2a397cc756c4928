"""The keys of the footer can be clicked on every screen."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace
from textual.geometry import Size

from tests.tui.cockpit import Stage, cockpit, take_steps_anew
from zoea.tui.commands.action import ActionContext, ActionPlace
from zoea.tui.commands.actions import BY_ID
from zoea.tui.screens.help import HelpScreen
from zoea.tui.widgets.line_list import PickList
from zoea.tui.widgets.status_bars import KeyFooter


async def click_key(stage: Stage, title: str) -> None:
    line = stage.one(KeyFooter)
    await stage.pilot.click(KeyFooter, offset=(line.text.index(f" {title} ") + 1, 0))
    await stage.pilot.pause()


async def a_click_on_a_footer_key_presses_it(stage: Stage) -> None:
    await click_key(stage, "help")
    assert isinstance(stage.screen, HelpScreen)
    await stage.press("escape")
    await click_key(stage, "hold")
    await stage.until(lambda: stage.app.feed.view is not None and stage.app.feed.view.held)
    await stage.pilot.pause()
    await click_key(stage, "resume")
    await stage.until(lambda: stage.app.feed.view is not None and not stage.app.feed.view.held)


def test_spare_keys_are_dropped_first() -> None:
    class Narrow(KeyFooter):
        size = Size(48, 1)

    line = Narrow()
    actions = [
        replace(BY_ID[id], place=ActionPlace.DASHBOARD) for id in ("mysis.new", "mysis.stop", "app.find", "app.help")
    ]
    line.describe(actions, ActionContext(), {})
    assert line.text == " n new  s stop  / filter  ? help "
    Narrow.size = Size(30, 1)
    line.describe(actions, ActionContext(), {})
    assert line.text == " n new  / filter  ? help "
    Narrow.size = Size(18, 1)
    line.describe(actions, ActionContext(), {})
    assert line.text == " n new  ? help "


def test_the_key_that_replaces_a_refused_key_is_shown_only_where_one_was_refused() -> None:
    class Wide(KeyFooter):
        size = Size(80, 1)

    line = Wide()
    for situation in (ActionContext(is_ready=False), ActionContext(), ActionContext(shown=1)):
        line.describe([BY_ID["provider.key"], BY_ID["app.help"]], situation, {})
        assert line.text == " ? help "


def test_a_pair_of_keys_is_one_entry_and_each_key_can_be_clicked() -> None:
    class Wide(KeyFooter):
        size = Size(80, 1)

    line = Wide()
    line.describe([BY_ID["charts.shorter"], BY_ID["charts.longer"]], ActionContext(), {})
    assert line.text == " [ ] less or more time "
    assert line._clicks == [(2, "app.do('charts.shorter')"), (23, "app.do('charts.longer')")]


def test_keys_come_back_after_a_line_of_words_which_takes_no_clicks() -> None:
    class Wide(KeyFooter):
        size = Size(80, 1)

    line = Wide()
    line.describe([BY_ID["app.help"]], ActionContext(), {})
    line.put([(" read it first", "quiet")])
    assert (line.text, list(line._clicks)) == (" read it first", [])
    line.describe([BY_ID["app.help"]], ActionContext(), {})
    assert line.text == " ? help "
    assert line._clicks


def test_the_keys_of_a_screen_are_kept_before_those_of_every_screen() -> None:
    class Narrow(KeyFooter):
        size = Size(80, 1)

    line = Narrow()
    names = ("open", "fork", "ask", "compare", "timeline")
    actions = [BY_ID[id] for id in ("app.back", "app.find", "app.command", "swarm.hold", "approval.oldest", "app.help")]
    line.describe([*actions, *(BY_ID[f"history.{name}"] for name in names)], ActionContext(approvals=1), {})
    assert line.text == " esc back  f fork  a ask it  c mark, compare  t timeline  o approvals 1  ? help "


async def test_the_footer_says_what_the_keys_do_to_marked_myses_and_how_to_unmark_them(tmp_path: Path) -> None:
    async with cockpit(tmp_path, start=True, size=(80, 24)) as stage:
        await stage.press("space", "space", until=lambda: stage.one(KeyFooter).text.startswith(" esc unmark "))
        assert " s stop 2 marked " in stage.one(KeyFooter).text
        await click_key(stage, "unmark")
        assert stage.app.marks == set()
        await stage.until(lambda: "unmark" not in stage.one(KeyFooter).text)


async def a_key_that_switches_something_back_says_so(stage: Stage) -> None:
    await stage.resize(80, 24)
    await stage.press("v")
    assert " v rows " in stage.one(KeyFooter).text
    await stage.press("v", "enter", "v")
    assert " v brief " in stage.one(KeyFooter).text
    await stage.press("v")
    assert " v verbose " in stage.one(KeyFooter).text


async def the_footer_names_find_and_filter_apart(stage: Stage) -> None:
    await stage.resize(200, 24)
    await stage.until(lambda: " / filter " in stage.one(KeyFooter).text)
    wide = stage.one(KeyFooter).text
    assert " q quit " in wide
    assert " esc back " not in wide, "nothing is behind the dashboard"
    await stage.press("enter")
    assert " / find " in stage.one(KeyFooter).text
    assert stage.one(KeyFooter).text.startswith(" esc back  m message "), "a conversation says first how to leave it"
    await stage.press("escape", "question_mark")
    stage.one(PickList).focus()
    await stage.until(lambda: " / find " in stage.one(KeyFooter).text)


async def a_click_on_a_disabled_key_shows_the_reason(stage: Stage) -> None:
    await stage.resize(200, 60)
    await click_key(stage, "approvals")
    assert "approvals: Nothing waits for your answer" in stage.notices


async def a_click_outside_the_keys_does_nothing(stage: Stage) -> None:
    await stage.resize(200, 60)
    before = stage.screen
    await stage.pilot.click(KeyFooter, offset=(199, 0))
    assert stage.screen is before
    assert stage.notices == []


async def clicks_hit_the_visible_keys_of_a_narrow_footer(stage: Stage) -> None:
    await stage.resize(80, 24)
    await click_key(stage, "help")
    assert isinstance(stage.screen, HelpScreen)


async def the_footer_is_empty_under_a_dialog_that_takes_the_keys(stage: Stage) -> None:
    dashboard = stage.screen
    await stage.press("D", shows="Delete alpha?")
    await stage.until(lambda: "broadcast" not in stage.text().splitlines()[-1])
    await stage.press("escape")
    await stage.until(lambda: stage.screen is dashboard and " b broadcast " in stage.text().splitlines()[-1])


async def the_footer_says_that_a_message_relaunches_a_stopped_mysis(stage: Stage) -> None:
    assert " m message " in stage.one(KeyFooter).text
    await stage.api.stop("alpha")
    await stage.until(lambda: " m relaunch with a message " in stage.one(KeyFooter).text)


async def test_the_footer_names_the_keys_that_work_and_takes_clicks(tmp_path: Path) -> None:
    await take_steps_anew(
        tmp_path,
        a_click_on_a_footer_key_presses_it,
        a_key_that_switches_something_back_says_so,
        the_footer_names_find_and_filter_apart,
        a_click_on_a_disabled_key_shows_the_reason,
        a_click_outside_the_keys_does_nothing,
        clicks_hit_the_visible_keys_of_a_narrow_footer,
        the_footer_is_empty_under_a_dialog_that_takes_the_keys,
        the_footer_says_that_a_message_relaunches_a_stopped_mysis,
    )
