"""The start of the cockpit from command line and settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zoea.model.enums import MysisState
from zoea.runtime.run_options import RunOptions
from zoea.settings.paths import places
from zoea.settings.schema import Settings
from zoea.tui import start
from zoea.tui.app import CockpitApp
from zoea.tui.state.swarm_feed import SwarmFeed


@pytest.mark.parametrize(
    ("restart", "state", "asks"),
    [("always", MysisState.RUNNING, True), ("ask", MysisState.IDLE, True), ("never", MysisState.IDLE, False)],
)
async def test_the_settings_say_whether_those_that_ran_run_again(
    monkeypatch: pytest.MonkeyPatch, restart: str, state: MysisState, asks: bool
) -> None:
    monkeypatch.setenv("ZOEA_SWARM__RESTART", restart)
    options = RunOptions(myses=2, provider="autopilot")
    async with start.open_swarm(options, places(configured=False)) as opened:
        await opened.api.start("alpha")
    async with start.open_swarm(RunOptions(), places(configured=False)) as opened:
        assert [view.state for view in (await opened.api.view()).myses] == [state, MysisState.IDLE]
        assert opened.asks_restart is asks


def test_a_run_without_animation_stays_so_when_the_settings_change(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[CockpitApp] = []

    def shown(cockpit: CockpitApp, log: Path, session: object = None) -> str:
        seen.append(cockpit)
        return "stop"

    monkeypatch.setattr(start, "show_cockpit", shown)
    for calm in (True, False):
        start.start(RunOptions(calm=calm), places(configured=False))
    quiet, lively = seen
    assert quiet.animation_level == "none"
    quiet.use_settings(Settings())
    assert quiet.reduced_motion
    assert quiet.animation_level == "none"
    assert not lively.reduced_motion


async def test_the_end_counts_the_myses_that_go_on() -> None:
    where = places(configured=False)
    feed = SwarmFeed(lambda _: None, lambda _: None, lambda _: None)
    async with start.open_swarm(RunOptions(myses=2, provider="autopilot"), where) as opened:
        await opened.api.start("alpha")
        feed.take(await opened.api.view())
        said = [start.describe_session(how, feed, where) for how in ("leave", "detach", "stop")]
    assert said[:2] == ["The swarm runs on with 1 mysis active; `zoea run` shows it.\n"] * 2
    assert said[2] == "The swarm has ended; `zoea run` opens it again.\n"


def test_a_cockpit_that_failed_has_an_exit_code_other_than_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(cockpit: CockpitApp) -> str:
        cockpit._return_code = 1  # as Textual does where a handler raised
        return "stop"

    monkeypatch.setattr(start, "run", run)
    assert start.start(RunOptions(), places(configured=False)) == 1


@pytest.mark.parametrize(("wished", "frames"), [({}, "240"), ({"TEXTUAL_FPS": "30"}, "30")])
def test_the_frame_rate_is_240_unless_the_environment_sets_another(wished: dict[str, str], frames: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TEXTUAL_FPS"} | wished
    code = "import zoea.tui.app; from textual.constants import MAX_FPS; print(MAX_FPS)"
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == frames
