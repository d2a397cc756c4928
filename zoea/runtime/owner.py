"""The process that owns a workspace: opens and closes lock, swarm and socket in order.

Closing may take ten seconds (decision 3). A part that exceeds its share is abandoned; if
the interpreter cannot end, a watchdog ends the process. Acknowledged data is not lost,
because it was committed before.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import stat
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from zoea.ipc.socket_server import SocketServer
from zoea.model.swarm_api import SwarmApi
from zoea.process.clock import SystemClock
from zoea.process.lock import OwnerLock
from zoea.settings.paths import Places

log = logging.getLogger(__name__)

SHUTDOWN_S = 9.5
"""Longest time in seconds from `end` until the process has ended."""

FORCED = 1

MakeSwarm = Callable[[Places, Callable[[], None]], AbstractAsyncContextManager[SwarmApi]]
"""Opens the swarm of a workspace. The second argument is called by the swarm's `shutdown`."""


class SwarmOwner:
    """A swarm that this process owns. Made by `own_workspace`.

    Attributes:
        api: The swarm.
        places: The directories of its workspace.
        ending: Set once a signal, a front or a deadline requests the end.
    """

    api: SwarmApi

    def __init__(self, places: Places) -> None:
        self.places = places
        self.ending = asyncio.Event()
        self._is_process = False

    def end(self) -> None:
        """Request the end, which comes when the block of `own_workspace` is left."""
        if self.ending.is_set():
            return
        self.ending.set()
        if self._is_process:
            watchdog = threading.Timer(SHUTDOWN_S, _force)
            watchdog.daemon = True
            watchdog.start()

    def be_the_process(self, *, on_hangup: Callable[[], None]) -> None:
        """Install the process's signal handlers and its shutdown watchdog.

        SIGINT and SIGTERM end the swarm, a second one the process; SIGHUP calls
        `on_hangup`. After `end` the process has `SHUTDOWN_S` seconds.
        """
        self._is_process = True
        loop = asyncio.get_running_loop()

        def request_end() -> None:
            if self.ending.is_set():
                _force()
            self.end()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, request_end)
        loop.add_signal_handler(signal.SIGHUP, on_hangup)


@asynccontextmanager
async def own_workspace(places: Places, swarm: MakeSwarm) -> AsyncIterator[SwarmOwner]:
    """Own the workspace and run `swarm` in it until the block is left.

    Raises:
        WorkspaceHeld: if another process owns it.
        ZoeaError: if a part cannot be opened; the opened parts are closed again.
    """
    places.make_data()
    places.make_runtime()
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        stack.enter_context(OwnerLock(places.data, places.socket, since=clock.now()))
        owner = SwarmOwner(places)
        owner.api = await stack.enter_async_context(swarm(places, owner.end))
        server = SocketServer(owner.api, places.socket, started_at=clock.now())
        await server.open()
        stack.push_async_callback(close_within, 1.0, server.close, "the socket")
        log.info("the swarm of %s is open", places.data)
        if (mode := stat.S_IMODE(places.data.stat().st_mode)) & 0o077:
            log.warning("%s has mode %04o, so other users may enter it: `zoea doctor --fix`", places.data, mode)
        stack.callback(owner.end)
        yield owner


async def close_within(seconds: float, work: Callable[[], Awaitable[object]], what: str) -> None:
    """Close a part within `seconds`: cancel and abandon it if it hangs, log it if it fails."""
    task = asyncio.ensure_future(work())
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if not done:
        task.cancel()
        log.warning("%s did not close within %g s", what, seconds)
    elif not task.cancelled() and (problem := task.exception()) is not None:
        log.warning("%s did not close: %s", what, problem)


def _force() -> None:
    sys.stderr.write("zoea: the swarm did not end in time, so the process was ended; stored data is not lost\n")
    sys.stderr.flush()
    os._exit(FORCED)
