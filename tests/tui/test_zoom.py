"""Panels: one is shown alone with `+`, and each gets the lines that it needs."""

from __future__ import annotations

from pathlib import Path

from textual.widget import Widget

from tests.tui.cockpit import Stage, asks_when_told, cockpit
from tests.tui.test_approvals import ask
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.screens.inspector import InspectorScreen
from zoea.tui.swarm_list.panel_room import PanelRoom, has_room_below, share_below, share_beside, share_in_one_frame
from zoea.tui.widgets.mysis_detail import MysisDetail
from zoea.tui.widgets.swarm_table import SwarmTable

FRAMES = ("SWARM", "NEEDS YOU", "INBOX")


def frames(stage: Stage) -> set[str]:
    """Return the titles of the frames on the screen."""
    return {title for title in FRAMES if f"╭─ {title}" in stage.text()}


async def test_plus_shows_one_panel_alone_and_all_again(tmp_path: Path) -> None:
    async with cockpit(tmp_path, asks_when_told) as stage:
        await stage.api.broadcast("Mine iron")
        await ask(stage, "gamma")
        for size in ((80, 24), (120, 40), (200, 60)):
            await stage.resize(*size)
            await stage.until(lambda: "o answer" in stage.text())
            await stage.press("plus", until=lambda: frames(stage) == {"SWARM"} and "shows all" in stage.text())
            assert stage.one(Widget, "#swarm").size.height >= size[1] - 6, size
            await stage.press("tab", until=lambda: not frames(stage) and "alpha" in stage.text())
            await stage.press("tab", until=lambda: frames(stage) == {"NEEDS YOU"} and "o answer" in stage.text())
            await stage.press("tab", until=lambda: frames(stage) == {"INBOX"} and "Mine iron" in stage.text())
            await stage.press("plus", until=lambda: "shows all" not in stage.text() and "╭─ SWARM" in stage.text())
            assert "Mine iron" in stage.text() or "NEEDS YOU" in stage.text(), size
            await stage.press("plus", "escape", until=lambda: "shows all" not in stage.text())
            await stage.go_home()


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
        await stage.press("plus", until=lambda: stage.one(Widget, "#packs").size.width > 150)
        await stage.press("tab", until=lambda: stage.one(Widget, "#messages").size.width > 150)
        await stage.press("plus")
        await stage.until(lambda: stage.one(Widget, "#packs").display and stage.one(Widget, "#requests").display)


async def test_a_panel_with_many_lines_gets_those_that_a_short_list_leaves(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(80, 24)) as stage:
        for number in range(8):
            await stage.api.broadcast(f"Message {number}")
        await stage.until(lambda: all(f"Message {number}" in stage.text() for number in range(8)))


def test_a_panel_grows_only_into_lines_that_the_list_leaves() -> None:
    assert share_in_one_frame(22, 12, 2, is_high=False) == PanelRoom()
    assert share_in_one_frame(22, 3, 8, is_high=False) == PanelRoom(3, 9)
    assert share_in_one_frame(22, 11, 30, is_high=False) == PanelRoom(side=6)
    assert share_in_one_frame(22, 50, 30, is_high=False) == PanelRoom()


def test_the_detail_gets_the_lines_that_no_other_panel_needs() -> None:
    assert share_in_one_frame(22, 3, 2, is_high=False) == PanelRoom(7)
    assert share_in_one_frame(21, 3, 0, is_high=False, has_side=False) == PanelRoom(13)
    assert share_in_one_frame(21, 50, 0, is_high=False, has_side=False) == PanelRoom()
    assert share_below(38, 3, 4) == PanelRoom(25, 6)
    assert share_below(38, 20, 30) == PanelRoom(11, 5)
    assert share_below(58, 5, 30) == PanelRoom(21, 29)
    for body in range(32, 80):
        for rows in range(body - 19):
            room = share_below(body, rows, 6)
            assert (room.detail or 0) + (room.side or 0) + max(rows, 4) + 3 == body


def test_beside_a_long_list_no_panel_is_higher_than_it_needs() -> None:
    assert not has_room_below(58, 60)
    assert has_room_below(58, 39)
    assert share_beside(58, 0, 1, is_high=True) == PanelRoom(None, 3)
    assert share_beside(58, 4, 5, is_high=True) == PanelRoom(None, 13, 6)
    assert share_beside(58, 40, 40, is_high=True) == PanelRoom(None, 47, 41)
    assert share_beside(28, 30, 30, is_high=False) == PanelRoom(None, 21, 15)


async def test_no_line_is_empty_between_the_list_and_a_detail_of_one_line(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(200, 60)) as stage:
        for number in range(4):
            await stage.api.send("alpha", f"Look {number}")
            await stage.swarm.settled("alpha")
        table, detail = stage.one(SwarmTable), stage.one(MysisDetail)
        for size in ((60, 16), (60, 20), (80, 24), (120, 40), (160, 30), (200, 60)):
            await stage.resize(*size)
            await stage.until(lambda: "beta" in stage.text() and detail.size.height)
            assert table.size.height >= 3, size
            if size[1] > 20:
                await stage.until(lambda: "Look 3" in stage.text())
                assert detail.size.height > 2, size
            if size == (200, 60):
                assert table.size.width > 190
                assert stage.one(Widget, "#feed").size.height <= 8


async def test_a_long_list_has_all_lines_of_a_wide_screen_beside_the_other_panels(tmp_path: Path) -> None:
    names = [f"one-{number:02}" for number in range(60)]
    async with cockpit(tmp_path, asks_when_told, names=names, size=(200, 60)) as stage:
        await stage.until(lambda: stage.one(SwarmTable).size.height == 58 - 3)
        await ask(stage, "one-07")
        await stage.until(lambda: "o answer" in stage.text())
        needs, feed, detail = (stage.one(Widget, part) for part in ("#needs", "#feed", "#detail"))
        assert needs.region.bottom <= feed.region.y < feed.region.bottom <= detail.region.y
        assert detail.region.bottom == 59
        await stage.resize(120, 40)
        await stage.until(lambda: detail.region.bottom <= needs.region.y)
