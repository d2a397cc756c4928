"""The timeline of the inspector: how long each turn took, and what for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.tui.cockpit import answering, asks_when_told, cockpit
from tests.tui.test_approvals import ask
from zoea.queries.turn_times import TurnTime, TurnWork, read_turn_times, split_turn
from zoea.tui.conversation.request_lines import build_turn_line
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.screens.inspector import READING, InspectorScreen
from zoea.tui.text_layout import count_cells

S = 1_000_000


def test_the_time_of_a_turn_is_split_without_gaps_and_the_model_counts_first() -> None:
    spans = split_turn(0, 100, [(0, 30), (60, 80)], [(20, 50), (55, 70), (90, 120)])
    assert [(str(span.work), span.began, span.ended) for span in spans] == [
        ("model", 0, 30), ("tools", 30, 50), ("waiting", 50, 55), ("tools", 55, 60), ("model", 60, 80),
        ("waiting", 80, 90), ("tools", 90, 100),
    ]  # fmt: skip
    assert split_turn(5, 5, [], []) == ()


@walk_cases("width", [40, 58, 76, 118, 196])
def test_the_bar_is_as_long_as_the_turn_took(width: int) -> None:
    long = TurnTime(2, 0, 40 * S, "answered", split_turn(0, 40 * S, [(0, 20 * S)], [(20 * S, 30 * S)]))
    half = TurnTime(1, 0, 20 * S, "", split_turn(0, 20 * S, [(0, 20 * S)], []))
    lines = [build_turn_line(turn, 40 * S, 50 * S, width) for turn in (long, half)]
    assert [count_cells(line) for line in lines] == [width, width]
    texts = ["".join(text for text, _ in line) for line in lines]
    marks = [sum(text.count(sign) for sign in "█▒─") for text in texts]
    assert abs(marks[0] - 2 * marks[1]) <= 1
    assert abs(texts[0].count("█") - 2 * texts[0].count("▒")) <= 2
    assert texts[0].rstrip().endswith("answered")
    assert texts[1].rstrip().endswith("goes on")
    if width >= 100:
        assert "model 20 s · tools 10 s · waiting 10 s" in texts[0]


async def test_the_inspector_shows_the_turns_as_bars_and_enter_opens_their_requests(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering(), size=(120, 40)) as stage:
        for number in range(3):
            await stage.api.send("alpha", f"Look {number}")
            await stage.swarm.settled("alpha")
        await stage.until(lambda: stage.view().turns == 3)
        await stage.press("i", "tab", "tab", "tab")
        await stage.until(lambda: stage.shows(InspectorScreen) and "TURNS, by how long they took" in stage.text())
        await stage.until(lambda: "TURNS 3" in stage.text() and stage.text().count("answered") >= 3)
        await stage.press("G", "enter")
        await stage.until(lambda: "turn 1, request 1" in stage.text() and "PARTS OF THE REQUEST" in stage.text())


async def test_a_turn_that_waits_for_an_answer_waits_and_goes_on(tmp_path: Path) -> None:
    async with cockpit(tmp_path, asks_when_told) as stage:
        await ask(stage, "gamma")
        stage.clock.by(30)
        (turn,) = read_turn_times(stage.swarm.path, stage.view("gamma").id, stage.clock.now())
        assert (turn.outcome, turn.length >= 30 * S) == ("", True)
        assert turn.sum_up(TurnWork.WAITING) >= 30 * S


async def test_while_the_inspector_reads_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with cockpit(tmp_path, answering(), size=(120, 40)) as stage:
        await stage.until(lambda: "No request yet" in stage.text(), within=10)
        may_read, real = asyncio.Event(), InspectorScreen.read

        async def read(screen: InspectorScreen, *args: Any, **more: Any) -> Any:
            await may_read.wait()
            return await real(screen, *args, **more)

        monkeypatch.setattr(InspectorScreen, "read", read)
        await stage.press("i", until=lambda: stage.shows(InspectorScreen) and READING in stage.text())
        assert "No request yet" not in stage.text()
        may_read.set()
        await stage.until(lambda: "No request yet" in stage.text() and READING not in stage.text())
        await stage.press("escape")
        assert stage.shows(DashboardScreen)


async def test_a_mysis_whose_tools_tell_of_no_state_has_no_panel_for_it(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering(), size=(160, 40)) as stage:
        await stage.press("enter", until=lambda: stage.shows(FocusScreen) and "No request yet" in stage.text())
        assert "STATE" not in stage.text()
