"""Before the swarm is open: stored rows are shown, and what is asked for waits."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from textual.dom import DOMNode

from tests.fakes.llm_clock import HandClock
from tests.swarm.harness import swarm
from tests.tui.cockpit import QUIET, START, Stage, answering, cockpit
from tests.tui.idle_pilot import IdlePilot, key_event
from tests.waiting import until
from zoea.model.enums import MysisState
from zoea.model.errors import StoreError, ZoeaError
from zoea.model.values import SwarmView
from zoea.process.lock import OwnerLock
from zoea.queries.stored_swarm import read_swarm_view
from zoea.settings.paths import places
from zoea.tui import start
from zoea.tui.app import CockpitApp
from zoea.tui.dialogs.command_line import CommandPromptDialog
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.state.swarm_connection import OpenSwarm
from zoea.tui.widgets.message_prompt import MessagePrompt

NAMES = {" ": "space", "\n": "enter", ":": "colon", "?": "question_mark"}


@dataclass
class Gate:
    """Lets the swarm open, or fail to."""

    event: asyncio.Event
    problem: ZoeaError | None = None

    def open(self, problem: ZoeaError | None = None) -> None:
        self.problem = problem
        self.event.set()


@asynccontextmanager
async def unopened(
    folder: Path, *, shows_rows: bool = True, waits_for_rows: bool = True
) -> AsyncIterator[tuple[Stage, Gate]]:
    """A cockpit over alpha, beta and gamma that opens once its gate does."""
    gate = Gate(asyncio.Event())
    async with swarm(folder, answering(), settings=QUIET) as inner:
        for name in ("alpha", "beta", "gamma"):
            await inner.commander.create(name, start=False)

        @asynccontextmanager
        async def opener() -> AsyncIterator[OpenSwarm]:
            await gate.event.wait()
            if gate.problem is not None:
                raise gate.problem
            yield OpenSwarm(inner.api, inner.path, True, "reef-run")

        def stored() -> SwarmView | None:
            return read_swarm_view(inner.path) if shows_rows else None

        app = CockpitApp(opener, config=folder / "config", reduced_motion=True, stored=stored, now=HandClock(START).now)
        async with app.run_test(size=(120, 40), notifications=True):
            stage = Stage(app, IdlePilot(app), inner.clock, inner, [])
            await stage.until(lambda: not (shows_rows and waits_for_rows) or stage.has("alpha", "beta", "gamma"))
            try:
                yield stage, gate
            finally:
                gate.open()
                await app.connection.close()


async def test_a_swarm_opens_although_its_stored_rows_cannot_be_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_broken(database: Path) -> SwarmView:
        raise ValueError("an unknown state")

    monkeypatch.setitem(globals(), "read_swarm_view", read_broken)
    async with unopened(tmp_path, waits_for_rows=False) as (stage, gate):
        await stage.until(lambda: "an unknown state" in stage.text())
        assert gc.isenabled()
        gate.open()
        await stage.until(lambda: stage.has("alpha", "beta", "gamma"))


async def type_slowly(stage: Stage, text: str) -> None:
    """Type each character on its own, as a person does."""
    for character in text:
        stage.app.post_message(key_event(NAMES.get(character, character)))
        await stage.pilot.pause()


async def messages(stage: Stage) -> list[str]:
    return [row["content"] for row in await stage.swarm.rows("SELECT content FROM message ORDER BY id")]


async def test_stored_rows_are_shown_while_the_swarm_opens(tmp_path: Path) -> None:
    async with unopened(tmp_path) as (stage, gate):
        assert "Opening the swarm" in stage.text()
        assert all(name in stage.text() for name in ("alpha", "beta", "gamma"))
        assert "No broadcast yet" not in stage.text()
        await stage.swarm.commander.broadcast("Meet at the belt")
        await stage.swarm.commander.delete("beta")
        gate.open()
        await stage.until(lambda: stage.app.feed.view is not None)
        assert [view.name for view in stage.app.feed.in_order()] == ["alpha", "gamma"]
        await stage.until(lambda: "2 myses" in stage.text() and "Meet at the belt" in stage.text())


async def test_a_broadcast_typed_before_the_swarm_is_open_is_sent_once_it_is(tmp_path: Path) -> None:
    async with unopened(tmp_path) as (stage, gate):
        await type_slowly(stage, "bxd and no X\n")
        await stage.until(lambda: "wait until the swarm is open" in stage.text())
        assert stage.shows(DashboardScreen)
        assert not stage.one(MessagePrompt).is_open
        gate.open()
        await stage.until(lambda: all(view.turns == 1 for view in stage.app.feed.myses.values()))
        assert await messages(stage) == ["xd and no X"]
        assert "wait until" not in stage.text()
        assert stage.app.feed.view is not None
        assert not stage.app.feed.view.held


async def test_a_command_line_typed_before_the_swarm_is_open_runs_once_it_is(tmp_path: Path) -> None:
    async with unopened(tmp_path) as (stage, gate):
        await type_slowly(stage, ":theme abyss\n")
        await stage.until(lambda: stage.app.theme_spec.name == "abyss")
        await type_slowly(stage, ":send beta hello\nx")
        await stage.until(lambda: "wait until" in stage.text() or stage.shows(CommandPromptDialog))
        gate.open()
        await stage.until(lambda: not stage.shows(CommandPromptDialog) and "ON HOLD" in stage.text())
        assert await messages(stage) == ["hello"]


async def test_a_key_for_a_row_that_was_not_shown_does_nothing(tmp_path: Path) -> None:
    async with unopened(tmp_path, shows_rows=False) as (stage, gate):
        await type_slowly(stage, "r")
        assert stage.app.opening_wait.holds_keys
        gate.open()
        await stage.until(lambda: stage.has("alpha") and not stage.app.opening_wait.holds_keys)
        assert "The list was not there yet" in stage.text()
        assert all(view.state is not MysisState.RUNNING for view in stage.app.feed.myses.values())


async def test_help_that_was_opened_before_the_swarm_offers_its_actions_once_it_is_open(tmp_path: Path) -> None:
    async with unopened(tmp_path) as (stage, gate):
        await type_slowly(stage, "?budgets")
        await stage.until(lambda: "the swarm is still opening" in stage.text())
        gate.open()
        await stage.until(lambda: "the swarm is still opening" not in stage.text())
        assert "Show how much of each budget" in stage.text()


async def test_ctrl_c_drops_what_waits_for_the_swarm(tmp_path: Path) -> None:
    async with unopened(tmp_path) as (stage, gate):
        await type_slowly(stage, "bhello\n")
        await until(lambda: stage.app.opening_wait.holds_keys)
        stage.app.post_message(key_event("ctrl+c"))
        await stage.until(lambda: "The keys that waited for the swarm are forgotten" in stage.text())
        gate.open()
        await stage.until(lambda: stage.app.feed.view is not None)
        assert stage.shows(DashboardScreen)
        assert not stage.one(MessagePrompt).is_open
        assert await messages(stage) == []


async def test_what_waited_for_a_swarm_that_cannot_be_opened_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with unopened(tmp_path) as (stage, gate):
        await type_slowly(stage, "bhello\n")
        gate.open(StoreError("the disk is full"))
        await stage.until(lambda: "The disk is full" in stage.text())
        assert stage.shows(DashboardScreen)
        assert not stage.one(MessagePrompt).is_open


async def test_stored_rows_are_read_where_no_other_process_runs_the_swarm(tmp_path: Path) -> None:
    where = places(configured=False)._replace(data=tmp_path)
    assert start.read_stored_rows(where) is None
    async with swarm(tmp_path, answering(), settings=QUIET) as inner:
        where = where._replace(data=inner.path.parent)
    assert start.read_stored_rows(where) is not None
    where.make_runtime()
    with OwnerLock(where.data, where.socket):
        assert start.read_stored_rows(where) is None


async def test_a_screen_has_the_classes_of_the_size_before_its_widgets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    styled: list[DOMNode] = []
    real = CockpitApp.update_styles

    def update_styles(app: CockpitApp, node: DOMNode, animate: bool = True) -> None:
        styled.extend([node] if node.children else [])
        real(app, node, animate)

    monkeypatch.setattr(CockpitApp, "update_styles", update_styles)
    async with cockpit(tmp_path, size=(150, 50)) as stage:
        assert stage.screen.has_class("-wide", "-tall", "-high")
        # Widgets get their styles when they mount; a class set later would style every widget again.
        assert styled.count(stage.screen) == 0


async def test_tasks_begin_after_the_code_that_makes_them(tmp_path: Path) -> None:
    """Textual would let those of the swarm begin at once, too."""
    loop = asyncio.get_running_loop()
    loop.set_task_factory(lambda loop, work, **options: asyncio.Task(work, loop=loop, **options))
    async with unopened(tmp_path):
        assert loop.get_task_factory() is None
