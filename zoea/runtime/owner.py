"""The process that owns a workspace: opens and closes lock, swarm and socket in order.

Closing may take ten seconds (decision 3). A part that exceeds its share is abandoned; if
the interpreter cannot end, a watchdog ends the process. Acknowledged data is not lost,
because it was committed before.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from signal import Signals

from zoea.ipc.socket_server import SocketServer
from zoea.model.swarm_api import SwarmApi
from zoea.process.clock import SystemClock
from zoea.process.forced_end import force_end
from zoea.process.lock import OwnerLock
from zoea.process.signal_watchdog import ANSWER_S, SignalWatchdog
from zoea.settings.paths import Places, list_data_folders

log = logging.getLogger(__name__)

SHUTDOWN_S = 9.5
"""Longest time in seconds from `end` until the process has ended."""

REPEAT_S = 1.0
"""Seconds within which a second signal is the same request: `timeout` and shells signal a process and its group."""

LOCK_CHECK_S = 5.0
"""Seconds between looks at the lock file."""

MakeSwarm = Callable[[Places, Callable[[], None]], AbstractAsyncContextManager[SwarmApi]]
"""Opens the swarm of a workspace. The second argument is called by the swarm's `shutdown`."""


class SwarmOwner:
    """A swarm that this process owns. Made by `own_workspace`.

    Attributes:
        api: The swarm.
        places: The directories of its workspace.
        lock: The lock of the workspace.
        ending: Set once a signal, a front or a deadline requests the end.
    """

    api: SwarmApi

    def __init__(self, places: Places, lock: OwnerLock) -> None:
        self.places = places
        self.lock = lock
        self.ending = asyncio.Event()
        self._ends_since = 0.0
        self._signals: SignalWatchdog | None = None
        self._is_process = False

    @property
    def warning(self) -> str:
        """What the person should know about the data directory. Empty if other users cannot enter it."""
        for folder in list_data_folders(self.places.data):
            status = folder.stat()
            mode = stat.S_IMODE(status.st_mode)
            if mode & 0o077 and (folder == self.places.data or status.st_uid == os.getuid()):
                return f"Other users may enter {folder} (mode {mode:04o}): `zoea doctor --fix` makes it yours alone."
        return ""

    def end(self) -> None:
        """Request the end, which comes when the block of `own_workspace` is left."""
        if self.ending.is_set():
            return
        self.ending.set()
        self._ends_since = time.monotonic()
        if self._is_process:
            watchdog = threading.Timer(SHUTDOWN_S, force_end, ["the swarm did not end in time"])
            watchdog.daemon = True
            watchdog.start()

    def release_signals(self) -> None:
        """Stop to watch signals; their handlers stay."""
        if self._signals is not None:
            self._signals.close()

    def be_the_process(self, *, on_hangup: Callable[[], None]) -> None:
        """Install the process's signal handlers and its shutdown watchdog.

        SIGINT and SIGTERM end the swarm, a second one after `REPEAT_S` the process; SIGHUP
        calls `on_hangup`. After `end` the process has `SHUTDOWN_S` seconds, and the event
        loop has `ANSWER_S` to answer a signal.
        """
        self._is_process = True
        self._signals = SignalWatchdog(report_unanswered)

        def request_end(number: Signals) -> None:
            if self.ending.is_set() and time.monotonic() - self._ends_since > REPEAT_S:
                force_end(f"{number.name} came again while the swarm was ending")
            self.end()

        self._signals.handle((Signals.SIGINT, Signals.SIGTERM), request_end)
        self._signals.handle((Signals.SIGHUP,), lambda _: on_hangup())


@asynccontextmanager
async def own_workspace(
    places: Places, swarm: MakeSwarm, *, on_hangup: Callable[[], None] | None = None
) -> AsyncIterator[SwarmOwner]:
    """Own the workspace and run `swarm` in it until the block is left.

    Args:
        on_hangup: If given, signals are handled as `be_the_process` says. One that comes while the swarm opens
            ends it once it is open.

    Raises:
        WorkspaceHeld: if another process owns it.
        ZoeaError: if a part cannot be opened; the opened parts are closed again.
    """
    places.make_data()
    places.make_runtime()
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        lock = stack.enter_context(OwnerLock(places.data, places.socket, since=clock.now()))
        owner = SwarmOwner(places, lock)
        stack.callback(owner.release_signals)
        if on_hangup is not None:  # before the swarm opens: its tool servers are started then
            owner.be_the_process(on_hangup=on_hangup)
        owner.api = await stack.enter_async_context(swarm(places, owner.end))
        server = SocketServer(owner.api, places.socket, started_at=clock.now())
        await server.open()
        stack.push_async_callback(close_within, 1.0, server.close, "the socket")
        log.info("the swarm of %s is open", places.data)
        if owner.warning:
            log.warning("%s", owner.warning)
        keeper = asyncio.create_task(_keep_lock_file(lock), name="lock file")
        stack.callback(keeper.cancel)
        stack.callback(owner.end)
        yield owner


async def _keep_lock_file(lock: OwnerLock) -> None:
    """Restore the lock file where a person removed it. Fronts find the swarm by it."""
    while True:
        await asyncio.sleep(LOCK_CHECK_S)
        try:
            if lock.restore_file():
                log.warning("%s was removed and is written again", lock.path)
        except OSError as problem:
            log.debug("%s cannot be written again: %s", lock.path, problem)


async def close_within(seconds: float, work: Callable[[], Awaitable[object]], what: str) -> None:
    """Close a part within `seconds`. Cancel and abandon it if it hangs, log it if it fails."""
    task = asyncio.ensure_future(work())
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if not done:
        task.cancel()
        log.warning("%s did not close within %g s", what, seconds)
    elif not task.cancelled() and (problem := task.exception()) is not None:
        log.warning("%s did not close: %s", what, problem)


def report_unanswered(number: Signals) -> None:
    """End the process, because its event loop does not answer the signal."""
    if number is not Signals.SIGHUP:
        force_end(f"the swarm did not answer {number.name} within {ANSWER_S:g} s")
