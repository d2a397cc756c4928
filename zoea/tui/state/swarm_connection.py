"""The connection to a swarm: opens it in a task, and closes or reopens it."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from zoea.model.errors import ZoeaError
from zoea.settings.paths import Places
from zoea.tui.state.swarm_feed import SwarmFeed

if TYPE_CHECKING:
    from zoea.model.swarm_api import SwarmApi

_log = logging.getLogger(__name__)

CLOSE_S = 9.5
"""Seconds that closing may take, because the process has promised to end within ten."""
REOPEN_S = 10.0


class OpenSwarm(Struct, frozen=True):
    """An open swarm: this process's own, or one that another process owns.

    Attributes:
        ending: Set when a client asks over the socket that an own swarm ends.
        read_only_reason: Why the swarm cannot be commanded; empty where it can.
        writes_files: Its cockpit may write settings, exports and screenshots.
        runs: It runs, though it cannot be commanded from here.
        warning: What the person should know when it opens.
        asks_restart: The screen offers to run the myses again that ran when Zoea ended.
    """

    api: SwarmApi
    database: Path
    is_owner: bool
    workspace: str = ""
    places: Places | None = None
    ending: asyncio.Event | None = None
    read_only_reason: str = ""
    writes_files: bool = True
    warning: str = ""
    asks_restart: bool = True
    runs: bool = False


Opener = Callable[[], AbstractAsyncContextManager[OpenSwarm]]


class SwarmConnection:
    """Holds at most one open swarm.

    Args:
        opener: Opens the swarm; left when the connection closes.
        feed: Follows the swarm while it is open.
        failed: Called with the error when the swarm cannot be opened.
        end_requested: Called when a client asks that the swarm ends.
    """

    def __init__(
        self, opener: Opener, feed: SwarmFeed, failed: Callable[[ZoeaError], None], end_requested: Callable[[], None]
    ) -> None:
        self.opened: OpenSwarm | None = None
        self.error: ZoeaError | None = None
        self._opener = opener
        self._feed = feed
        self._failed = failed
        self._end_requested = end_requested
        self._settled = asyncio.Event()
        self._close = asyncio.Event()
        self._reopening = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._close_by = math.inf

    @property
    def api(self) -> SwarmApi:
        """The swarm. Raises ZoeaError while it is not open."""
        if self.opened is None:
            raise self.error or ZoeaError("the swarm is still opening", title="Not yet")
        return self.opened.api

    def open(self, before: Callable[[], Awaitable[None]] | None = None, opener: Opener | None = None) -> None:
        """Start to open the swarm, after `before`, and with another opener where one is given."""
        self._task = asyncio.create_task(self._run(before, opener or self._opener))

    async def reopen(self, opener: Opener | None = None, *, lasts: bool = True) -> None:
        """Close the swarm and open it again, with another opener where one is given.

        Args:
            lasts: Later calls without an opener use this one too.

        Raises ZoeaError when it cannot be opened; `failed` is called before.
        """
        async with self._reopening:
            self._close.set()
            if self._task is not None:
                await asyncio.wait({self._task}, timeout=REOPEN_S)
            self._close = asyncio.Event()
            self._settled.clear()
            self.opened, self.error = None, None
            self._feed.forget()
            if opener is not None and lasts:
                self._opener = opener
            self.open(opener=opener)
            await self._settled.wait()
            if self.error is not None:
                raise self.error

    @property
    def is_reopening(self) -> bool:
        return self._reopening.locked()

    async def close(self) -> None:
        """Close the swarm, or stop opening it. Returns after 9.5 seconds at most, from the first call on."""
        self._close.set()
        self._close_by = min(self._close_by, time.monotonic() + CLOSE_S)
        if self._task is None:
            return
        if self.opened is None:
            self._task.cancel()
        left = self._close_by - time.monotonic()
        if left > 0:
            await asyncio.wait({self._task}, timeout=left)

    def abandon(self) -> None:
        """Close without waiting: later calls of `close` return at once."""
        self._close.set()
        self._close_by = 0.0

    async def _run(self, before: Callable[[], Awaitable[None]] | None, opener: Opener) -> None:
        try:
            if before is not None:
                await before()
            async with opener() as opened:
                self.opened = opened
                self._settled.set()
                following = asyncio.create_task(self._feed.follow(opened.api))
                ending = asyncio.create_task(self._watch_end(opened.ending))
                try:
                    await self._close.wait()
                finally:
                    following.cancel()
                    ending.cancel()
                    await asyncio.wait({following, ending}, timeout=1)
        except ZoeaError as error:
            self._report(error)
        except Exception as error:  # noqa: BLE001  otherwise the screen would show "opening the swarm" for ever
            _log.exception("the swarm could not be opened")
            self._report(ZoeaError(f"{type(error).__name__}: {error}", title="The swarm could not be opened"))

    def _report(self, error: ZoeaError) -> None:
        self.error = error
        self._settled.set()
        self._failed(error)

    async def _watch_end(self, ending: asyncio.Event | None) -> None:
        if ending is not None:
            await ending.wait()
            self._end_requested()
