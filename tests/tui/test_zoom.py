"""Panels: one is shown alone with `+`, and each gets the lines that it needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widget import Widget

from tests.tui.cockpit import Stage, asks_when_told, cockpit
from tests.tui.test_approvals import ask
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.screens.inspector import InspectorScreen
from zoea.tui.swarm_list.panel_room import PanelRoom, share_below, share_beside, share_in_one_frame

FRAMES = ("SWARM", "NEEDS YOU", "INBOX")


def frames(stage: Stage) -> set[str]:
    """Return the titles of the frames on the screen."""
    return {title for title in FRAMES if f"╭─ {title}" in stage.text()}


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_plus_shows_one_panel_alone_and_all_again(tmp_path: Path, size: tuple[int, int]) -> None:
    async with cockpit(tmp_path, asks_when_told, size=size) as stage:
        await stage.api.broadcast("Mine iron")
        await ask(stage, "gamma")
        await stage.until(lambda: "o answer" in stage.text())
        await stage.press("plus")
        await stage.until(lambda: frames(stage) == {"SWARM"} and "shows all" in stage.text())
        assert stage.one(Widget, "#swarm").size.height >= size[1] - 6
        await stage.press("tab")
        await stage.until(lambda: not frames(stage) and "alpha" in stage.text())
        await stage.press("tab")
        await stage.until(lambda: frames(stage) == {"NEEDS YOU"} and "o answer" in stage.text())
        await stage.press("tab")
        await stage.until(lambda: frames(stage) == {"INBOX"} and "Mine iron" in stage.text())
        await stage.press("plus")
        await stage.until(lambda: "shows all" not in stage.text() and "╭─ SWARM" in stage.text())
        assert "Mine iron" in stage.text() or "NEEDS YOU" in stage.text()
        await stage.press("plus", "escape")
        await stage.until(lambda: "shows all" not in stage.text())


async def test_plus_shows_one_part_of_the_inspector_and_the_conversation_alone(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(160, 40)) as stage:
        await stage.api.send("alpha", "Look around")
        await stage.until(lambda: stage.view().turns == 1)
        await stage.press("enter")
        assert stage.shows(FocusScreen)
        await stage.until(lambda: stage.one(Widget, "#side").display)
        await stage.press("plus")
        assert not stage.one(Widget, "#side").display
        await stage.press("plus", "i")
        assert stage.shows(InspectorScreen)
        await stage.press("plus")
        await stage.until(lambda: stage.one(Widget, "#packs").size.width > 150)
        await stage.press("tab")
        await stage.until(lambda: stage.one(Widget, "#messages").size.width > 150)
        await stage.press("plus")
        await stage.until(lambda: stage.one(Widget, "#packs").display and stage.one(Widget, "#requests").display)


async def test_a_panel_with_many_lines_gets_those_that_a_short_list_leaves(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(80, 24)) as stage:
        for number in range(8):
            await stage.api.broadcast(f"Message {number}")
        await stage.until(lambda: all(f"Message {number}" in stage.text() for number in range(8)))


def test_a_panel_grows_only_into_lines_that_the_list_leaves() -> None:
    assert share_in_one_frame(22, 3, 2, is_high=False) == PanelRoom()
    assert share_in_one_frame(22, 3, 8, is_high=False) == PanelRoom(side=9)
    assert share_in_one_frame(22, 12, 30, is_high=False) == PanelRoom(side=6)
    assert share_in_one_frame(22, 50, 30, is_high=False) == PanelRoom()
    assert share_below(38, 3, 4) == PanelRoom(detail=15)
    assert share_below(38, 3, 30) == PanelRoom(side=13)
    assert share_below(38, 40, 30) == PanelRoom()
    assert share_beside(58, 3, 4, is_high=True) == PanelRoom(detail=29, needs=52)
    assert share_beside(38, 40, 30, is_high=False) == PanelRoom()
