"""The footer's keys can be clicked, on every screen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from textual.geometry import Size

from tests.tui.cockpit import Stage, cockpit
from zoea.tui.commands.actions import BY_ID, ActionContext, ActionPlace
from zoea.tui.screens.help import HelpScreen
from zoea.tui.widgets.pick_list import PickList
from zoea.tui.widgets.status_bars import KeyFooter


async def click_key(stage: Stage, title: str) -> None:
    line = stage.one(KeyFooter)
    await stage.pilot.click(KeyFooter, offset=(line.text.index(f" {title} ") + 1, 0))
    await stage.pilot.pause()


async def test_a_click_on_a_key_is_that_key(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await click_key(stage, "help")
        assert isinstance(stage.screen, HelpScreen)
        await stage.press("escape")
        await click_key(stage, "hold")
        await stage.until(lambda: stage.app.feed.view is not None and stage.app.feed.view.held)
        await stage.pilot.pause()
        await click_key(stage, "resume")
        await stage.until(lambda: stage.app.feed.view is not None and not stage.app.feed.view.held)


def test_where_there_is_little_room_spare_keys_go_before_all_others() -> None:
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


async def test_the_footer_calls_finding_find_and_filtering_filter(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(200, 24)) as stage:
        wide = stage.one(KeyFooter).text
        assert " / filter " in wide
        assert " q quit " in wide
        assert " esc back " not in wide, "nothing is behind the dashboard"
        await stage.press("enter")
        assert " / find " in stage.one(KeyFooter).text
        assert stage.one(KeyFooter).text.startswith(" esc back  m message "), (
            "a conversation says first how to leave it"
        )
        await stage.press("escape", "question_mark")
        stage.one(PickList).focus()
        await stage.until(lambda: " / find " in stage.one(KeyFooter).text)


async def test_a_click_on_what_is_not_possible_says_why(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await click_key(stage, "approvals")
        assert "approvals: nothing waits for your answer" in stage.notices


async def test_beside_the_keys_a_click_does_nothing(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(200, 60)) as stage:
        before = stage.screen
        await stage.pilot.click(KeyFooter, offset=(199, 0))
        assert stage.screen is before
        assert stage.notices == []


async def test_where_it_is_narrow_the_keys_that_are_shown_are_those_clicked(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(80, 24)) as stage:
        await click_key(stage, "help")
        assert isinstance(stage.screen, HelpScreen)
