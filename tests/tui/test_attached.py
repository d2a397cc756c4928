"""Several cockpits on one swarm: each shows the commands of the others."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from textual.widget import Widget

from tests.queries.test_request_inspection import send_prompts
from tests.swarm.harness import Swarm, swarm
from tests.tui.cockpit import QUIET, Stage, answering, cockpit, cockpit_over
from zoea.ipc.remote_swarm import RemoteSwarm
from zoea.ipc.socket_server import SocketServer
from zoea.model.enums import MysisState
from zoea.tui.dialogs.commit_forms import ForkDialog
from zoea.tui.screens.history import HistoryScreen


@asynccontextmanager
async def two_cockpits(folder: Path) -> AsyncIterator[tuple[Stage, Stage, Swarm]]:
    """Two cockpits on one running swarm, over its socket."""
    async with AsyncExitStack() as stack:
        runtime = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zoea-")))
        inner = await stack.enter_async_context(swarm(folder, answering(), settings=QUIET))
        await inner.commander.create("alpha")
        server = SocketServer(inner.api, runtime / "s.sock")
        await server.open()
        stack.push_async_callback(server.close)
        stages = []
        for _ in range(2):
            remote = await stack.enter_async_context(await RemoteSwarm.connect(server.path))
            front = cockpit_over(remote, inner.path, is_owner=False, clock=inner.clock)
            stages.append(await stack.enter_async_context(front))
        for stage in stages:
            await stage.until(partial(stage.has, "alpha"))
        yield stages[0], stages[1], inner


async def test_news_while_the_cockpit_closes_are_no_defect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with cockpit(tmp_path) as stage:
        app, told = stage.app, []
        remove = app._prune

        async def remove_with_news(*nodes: Widget) -> None:
            await remove(*nodes)
            told.append(nodes)
            app.feed_changed(frozenset())

        monkeypatch.setattr(app, "_prune", remove_with_news)
    assert told
    assert not app.reported_defects


async def test_hold_and_stop_all_work_from_each_of_two_cockpits_and_show_in_the_other(tmp_path: Path) -> None:
    async with two_cockpits(tmp_path) as (one, other, inner):

        def held(stage: Stage) -> bool:
            return stage.app.feed.view is not None and stage.app.feed.view.held

        assert "attached" in one.text()
        await one.press("x")
        await other.until(lambda: held(other))
        await one.until(lambda: held(one))
        assert (await inner.commander.view()).held

        await other.press("x")
        await one.until(lambda: not held(one))
        await other.until(lambda: not held(other))

        assert one.view().state is MysisState.RUNNING
        await other.press("X", "X")
        await one.until(lambda: one.view().state is MysisState.STOPPED)
        await other.until(lambda: other.view().state is MysisState.STOPPED)

        await one.press("q", "l")
        await one.until(lambda: one.app.return_value == "detach")
        assert (await inner.commander.view()).myses[0].name == "alpha"
        await other.press("r")
        await other.until(lambda: other.view().state is MysisState.RUNNING)


async def test_the_history_is_read_and_forked_from_an_attached_cockpit(tmp_path: Path) -> None:
    async with two_cockpits(tmp_path) as (one, other, inner):
        await send_prompts(inner, "Mine the belt")
        await one.press("h")
        screen = one.screen
        assert isinstance(screen, HistoryScreen)
        await one.until(lambda: screen.details is not None)
        assert "Mine the belt" in one.text()
        await one.press("f")
        dialog = one.screen
        assert isinstance(dialog, ForkDialog)
        await one.until(lambda: dialog.is_counted)
        await one.press("enter")
        await other.until(lambda: other.has("alpha-2"))
        await one.until(lambda: one.screen is screen)
        await one.press("z")
        await other.until(lambda: not other.has("alpha-2"))


async def test_a_read_only_cockpit_shows_the_history_and_says_why_it_cannot_fork(tmp_path: Path) -> None:
    async with swarm(tmp_path, answering(), settings=QUIET) as inner:
        await inner.commander.create("alpha")
        await send_prompts(inner, "Mine the belt")
        front = cockpit_over(inner.api, inner.path, clock=inner.clock, read_only_reason="it is open elsewhere")
        async with front as stage:
            await stage.until(lambda: stage.has("alpha"))
            await stage.press("h", shows="ctx-")
            await stage.press("f")
            assert isinstance(stage.screen, HistoryScreen)
            assert any("it is open elsewhere" in notice.lower() for notice in stage.notices)
