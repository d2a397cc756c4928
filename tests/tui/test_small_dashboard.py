"""The dashboard on small terminals: one frame, and two panels in one place."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.swarm.harness import call
from tests.tui.cockpit import asks_when_told, cockpit
from tests.tui.test_approvals import ask
from zoea.model.enums import Role
from zoea.model.request import Answer, ModelRequest
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.swarm_list.panel_room import DETAIL
from zoea.tui.widgets.mysis_detail import MysisDetail
from zoea.tui.widgets.swarm_table import SwarmTable


async def test_a_small_dashboard_shows_feed_and_needs_as_tabs(tmp_path: Path) -> None:
    async with cockpit(tmp_path, asks_when_told, size=(80, 24)) as stage:
        await stage.api.broadcast("Mine iron")
        await stage.until(lambda: "answered" in stage.text())
        assert "Mine iron" in stage.text()
        assert "NEEDS YOU" not in stage.text()
        await ask(stage, "gamma")
        await stage.until(lambda: "NEEDS YOU 1 ─ INBOX AND BROADCASTS" in stage.text() and "o answer" in stage.text())
        assert "you → 3" not in stage.text()
        await stage.press("tab", shows="you → 3")
        assert "o answer" not in stage.text()
        assert "tab shows who needs you" in stage.text()
        await stage.press("b")
        assert "tab shows" not in stage.text(), "the prompt takes the key"
        await stage.press("escape")
        assert "tab shows who needs you" in stage.text()
        lines = stage.text().splitlines()
        row, column = next((y, line.index("NEEDS YOU")) for y, line in enumerate(lines) if "NEEDS YOU" in line)
        await stage.pilot.click(offset=(column, row))
        await stage.until(lambda: "o answer" in stage.text())
        await stage.pilot.resize_terminal(80, 23)
        await stage.until(lambda: "NEEDS YOU" not in stage.text())
        assert "├─ alpha" in stage.text()
        await stage.pilot.resize_terminal(80, 20)
        await stage.until(lambda: "├─ alpha" not in stage.text())
        await stage.until(lambda: re.search(r"1 needs you: \w+ \(w\)", stage.text()))
        await stage.pilot.resize_terminal(120, 40)
        await stage.until(lambda: "(w)" not in stage.text())
        await stage.until(lambda: "╭─ NEEDS YOU" in stage.text() and "╭─ INBOX" in stage.text())
        await stage.press("tab")
        assert stage.notices[-1] == "Both lists are shown already"


async def test_the_detail_shows_recent_lines_and_the_newest_request(tmp_path: Path) -> None:
    async with cockpit(tmp_path, asks_when_told, size=(120, 40)) as stage:
        await stage.until(lambda: "No request yet" in stage.text())
        await stage.api.send("alpha", "Look [/] around")
        await stage.until(lambda: "from you  Look [/] around" in stage.text())
        await stage.until(lambda: "this turn" in stage.text() and "tokens in all" in stage.text())
        await stage.until(lambda: re.search(r"turn budget ━─{9} [0-9.]+k?/200k tokens", stage.text()))
        await stage.press("j", shows="No request yet")
        await stage.pilot.resize_terminal(80, 24)
        await stage.until(lambda: "├─ beta" in stage.text())
        row = next(y for y, line in enumerate(stage.text().splitlines()) if "├─ beta" in line)
        await stage.pilot.click(offset=(4, row))
        await stage.until(lambda: stage.shows(FocusScreen))


def _act(request: ModelRequest) -> Answer:
    is_told = request.messages[-1].role is Role.USER
    return Answer(calls=(call("act", "x"),)) if is_told else Answer(text="done")


async def test_the_detail_counts_the_time_of_a_running_call(tmp_path: Path) -> None:
    async with cockpit(tmp_path, _act, size=(120, 40)) as stage:
        gate = stage.swarm.peer.gates["act"] = asyncio.Event()
        await stage.api.send("alpha", "go")
        await stage.until(lambda: re.search(r"running +[0-9.]+", stage.text()))
        stage.clock.by(30)
        await stage.until(lambda: re.search(r"running +30", stage.text()))
        gate.set()
        await stage.until(lambda: not stage.one(MysisDetail)._has_running_call)


async def test_the_detail_grows_when_there_are_few_myses(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(160, 45)) as stage:
        detail = stage.one(MysisDetail)
        await stage.until(lambda: detail.size.height + 2 == 43 - 7 - 5)
        for number in range(20):
            await stage.api.create(f"one-{number}", start=False)
        await stage.until(lambda: detail.size.height + 2 == 43 - 23 - 3 - 5)
        await stage.pilot.resize_terminal(160, 40)
        await stage.until(lambda: detail.size.height + 2 == 38 - 3)
        await stage.pilot.resize_terminal(120, 40)
        await stage.until(lambda: detail.size.height + 2 == DETAIL)
        await stage.pilot.resize_terminal(80, 24)
        await stage.until(lambda: detail.size.height == 1)


async def test_columns_that_come_before_the_frame_of_a_small_screen_has_gone_break_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cockpit(tmp_path, size=(80, 24)) as stage:
        monkeypatch.setattr(DashboardScreen, "_take_size", lambda self, size: None)  # the news of the size is late
        await stage.pilot.resize_terminal(200, 30)
        stage.one(SwarmTable).post_message(SwarmTable.Sized())
        await stage.until(lambda: stage.screen.has_class("-columns") or stage.app._exception is not None)
        assert stage.app._exception is None
        assert stage.screen.has_class("-joined")
        assert "alpha" in stage.text()
