"""A fake swarm with a real lock and socket, in a thread of its own: what commands meet beside a running swarm."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

from tests.fakes.swarm import FakeSwarm
from zoea.model.swarm_api import SwarmApi
from zoea.runtime.owner import SwarmOwner, own_workspace
from zoea.settings.paths import Places, places

T = TypeVar("T")


class OwnerThread:
    """Drive the swarm from the test's thread with `do`."""

    def __init__(self, swarm: FakeSwarm) -> None:
        self.swarm = swarm
        self.owner: SwarmOwner | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.is_open = threading.Event()
        self.problem: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the swarm's loop and wait for it."""
        assert self.loop is not None
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=30)

    def loop_call_later(self, seconds: float, callback: Callable[[], object]) -> None:
        """Do something on the swarm's loop in a while."""
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self.loop.call_later, seconds, callback)

    def end(self) -> None:
        """Request the end without waiting for it: the loop may have ended already."""
        assert self.owner is not None
        assert self.loop is not None
        with suppress(RuntimeError):  # of a loop that is closed: it has ended
            self.loop.call_soon_threadsafe(self.owner.end)

    def _run(self) -> None:
        try:
            asyncio.run(self._own())
        except BaseException as problem:  # noqa: BLE001  # the test's own thread raises it again
            self.problem = problem
        finally:
            self.is_open.set()

    async def _own(self) -> None:
        self.loop = asyncio.get_running_loop()
        async with own_workspace(places(), self._swarm) as self.owner:
            self.is_open.set()
            await self.owner.ending.wait()

    @asynccontextmanager
    async def _swarm(self, _places: Places, on_shutdown: Callable[[], None]) -> AsyncIterator[SwarmApi]:
        self.swarm.on_shutdown = on_shutdown
        yield self.swarm


@contextmanager
def fake_owner(swarm: FakeSwarm | None = None) -> Iterator[OwnerThread]:
    """Own the test's workspace while the block runs."""
    running = OwnerThread(swarm or FakeSwarm())
    running.thread.start()
    assert running.is_open.wait(timeout=30)
    if running.problem is not None:
        raise running.problem
    try:
        yield running
    finally:
        running.end()
        running.thread.join(timeout=30)
        assert not running.thread.is_alive()
