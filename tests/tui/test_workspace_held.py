"""A workspace with an owner that does not answer: try again, read-only, or another one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.widgets import Input

from tests.fakes.llm_clock import HandClock
from tests.swarm.harness import swarm
from tests.tui.cockpit import QUIET, START, Stage, answering
from tests.tui.idle_pilot import IdlePilot
from zoea.ipc.read_only import ReadOnlySwarm
from zoea.model.errors import NoRunningSwarm, OwnerError, ZoeaError
from zoea.runtime.run_options import RunOptions
from zoea.settings.paths import places
from zoea.tui import start
from zoea.tui.app import CockpitApp
from zoea.tui.commands.actions import BY_ID
from zoea.tui.dialogs.workspace_held import WorkspaceHeldDialog
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.state.cockpit import OTHER_WORKSPACE
from zoea.tui.state.swarm_connection import OpenSwarm


@asynccontextmanager
async def held(folder: Path, answers: list[bool], why: ZoeaError | None = None) -> AsyncIterator[Stage]:
    """Open a cockpit whose workspace another process holds. It can be attached to once `answers` says so."""
    async with swarm(folder, answering("It is done"), settings=QUIET) as inner:
        await inner.commander.create("alpha", start=False)
        await inner.commander.send("alpha", "Mine the belt")
        runner = inner.commander.swarm.runner("alpha")
        await inner.until(lambda: runner.is_settled)
        where = places(configured=False)._replace(data=inner.path.parent)

        @asynccontextmanager
        async def opener() -> AsyncIterator[OpenSwarm]:
            if not answers:
                raise why or NoRunningSwarm("the swarm's process has not answered for 5 s", hint="It may be stopped.")
            yield OpenSwarm(inner.api, inner.path, False, "reef-run")

        app = CockpitApp(opener, config=folder / "config", reduced_motion=True, now=HandClock(START).now)
        app.read_only_opener = lambda: start.open_read_only(where)
        async with app.run_test(size=(100, 30), notifications=True):
            stage = Stage(app, IdlePilot(app), inner.clock, inner, [])
            await stage.until(lambda: stage.shows(WorkspaceHeldDialog))
            try:
                yield stage
            finally:
                await app.connection.close()


async def test_a_read_only_cockpit_shows_stored_conversations_and_refuses_commands(tmp_path: Path) -> None:
    async with held(tmp_path, []) as stage:
        assert "THE WORKSPACE IS IN USE" in stage.text()
        assert "has not answered for 5 s" in stage.text()
        await stage.press("l", until=lambda: stage.shows(DashboardScreen) and stage.has("alpha"))
        await stage.until(lambda: "read-only" in stage.text())
        for action_id in ("mysis.message", "swarm.broadcast", "mysis.new", "swarm.hold", "mysis.stop"):
            assert "read-only" in BY_ID[action_id].why_not(stage.app.action_context())
        await stage.press("enter", until=lambda: stage.shows(FocusScreen) and "It is done" in stage.text())


async def test_a_swarm_that_cannot_be_opened_is_not_called_in_use(tmp_path: Path) -> None:
    async with held(tmp_path, [], OwnerError("/no/where cannot be made")) as stage:
        assert "THE SWARM COULD NOT BE OPENED" in stage.text()
        assert "Zoea cannot run or connect" in stage.text()
        assert "is left as it is" not in stage.text()


async def test_trying_again_attaches_once_the_owner_answers_and_asks_again_until_then(tmp_path: Path) -> None:
    answers: list[bool] = []
    async with held(tmp_path, answers) as stage:
        first = stage.screen
        await stage.press("a", until=lambda: stage.shows(WorkspaceHeldDialog) and stage.screen is not first)
        answers.append(True)
        await stage.press("a", until=lambda: stage.shows(DashboardScreen) and stage.has("alpha"))
        assert not stage.app.action_context().read_only_reason


async def test_another_workspace_is_asked_for_by_name(tmp_path: Path) -> None:
    async with held(tmp_path, []) as stage:
        await stage.press("escape", "w", "escape")
        assert stage.shows(WorkspaceHeldDialog)
        assert not stage.one(Input).display
        await stage.press("w")
        stage.one(Input).value = "../out"
        await stage.press("enter")
        assert stage.shows(WorkspaceHeldDialog)
        stage.one(Input).value = "other"
        await stage.press("enter", until=lambda: stage.app.return_value == f"{OTHER_WORKSPACE}other")
        assert stage.app.open_error is None


def test_the_other_workspace_is_opened_next(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[CockpitApp] = []
    ways = iter((f"{OTHER_WORKSPACE}other", "stop"))

    def shown(cockpit: CockpitApp, log: Path, session: object) -> str:
        seen.append(cockpit)
        return next(ways)

    monkeypatch.setattr(start, "show_cockpit", shown)
    assert start.start(RunOptions(), places(configured=False)) == 0
    assert len(seen) == 2


async def test_a_read_only_swarm_reports_changes_and_refuses_commands(tmp_path: Path) -> None:
    async with swarm(tmp_path, answering(), settings=QUIET) as inner:
        await inner.commander.create("alpha", start=False)
        looking = ReadOnlySwarm.over(inner.path, poll_s=0.01)
        seen = looking.changes()
        assert [view.name for view in (await anext(seen)).myses] == ["alpha"]
        await inner.commander.delete("alpha")
        changed = await anext(seen)
        assert (changed.myses, changed.removed) == ((), (1,))
        for answer in (looking.approvals, looking.grants, looking.upstreams, looking.providers):
            assert await answer() == ()
        with pytest.raises(OwnerError, match="read-only"):
            await looking.broadcast("hello")
