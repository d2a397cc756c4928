"""One session of an upstream and the task that owns it.

The owner opens, closes and re-opens and does nothing else: the SDK's cancel
scopes must be entered and left in one task. Calls run in their callers' tasks on
the `McpConnection` that `ready` gives them.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from zoea.tools.catalogue import RemoteTool
from zoea.tools.upstream.call_failure import CallFailure, CallOutcome
from zoea.tools.upstream.http_pool import HttpPool
from zoea.tools.upstream.open_errors import reason_of
from zoea.tools.upstream.stderr_log import StderrLog
from zoea.tools.upstream.upstream_config import UpstreamConfig

if TYPE_CHECKING:
    from zoea.tools.upstream.mcp_connection import McpConnection

    Connect = Callable[..., AbstractAsyncContextManager[McpConnection]]

logger = logging.getLogger(__name__)

CLOSE_S = 5.0
"""The longest that closing may take: the SDK ends a child within 4.5 s, by force if it must."""
REOPEN_S = 5.0
"""How long a new call waits for a session that has just been lost."""
STABLE_S = 10.0
"""A session that held this long starts its back-off anew."""
DRAIN_S = 2.0
"""How long calls in flight may still be answered on a session that the server has forgotten."""

_SDK_SIDE = "zoea.tools.upstream.mcp_connection"
"""Loaded at the first opening and off the loop: the SDK's import takes 0.6 s."""
_PERMANENT = (FileNotFoundError, PermissionError, NotADirectoryError, ValueError)


class SessionState(StrEnum):
    OPENING = "opening"
    OPEN = "open"
    LOST = "lost"
    DOWN = "down"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class SessionContext:
    """What a link needs from its upstream.

    `tools` is told each list that a session gives, `changed` any change of state;
    `jitter` gives a number in [0, 1).
    """

    config: UpstreamConfig
    log: StderrLog
    pool: HttpPool
    tools: Callable[[tuple[RemoteTool, ...]], None]
    changed: Callable[[], None]
    jitter: Callable[[], float]


class UpstreamSession:
    """One session: opened at once, re-opened when lost, closed when idle where it may be."""

    def __init__(self, around: SessionContext, *, label: str, idle_close: float | None) -> None:
        self._around = around
        self._config = around.config
        self._label = label
        self._idle_close = idle_close
        self._connection: McpConnection | None = None
        self._pulse = asyncio.Event()
        self._wake = asyncio.Event()
        self._stale = False
        self._ending = False
        self._limit: asyncio.Timeout | None = None
        self._started = time.monotonic()
        self._used = self._started
        self.state = SessionState.OPENING
        self.generation = 0
        self.failures = 0
        self.busy = 0
        self.error = ""
        self.open_ms: float | None = None
        self.server = ""
        self._task = asyncio.create_task(self._own(), name=f"upstream {label}")

    @property
    def is_closed(self) -> bool:
        return self._task.done()

    @property
    def is_ending(self) -> bool:
        """True from the moment it will take no more calls."""
        return self._ending or self._task.done()

    @property
    def last_used(self) -> float:
        """`time.monotonic()` of the last call's start or end."""
        return self._used

    def use(self) -> None:
        """A call begins: the link is neither idle nor to be taken away."""
        self.busy += 1
        self._used = time.monotonic()

    def unuse(self) -> None:
        self.busy -= 1
        self._used = time.monotonic()

    async def ready(self, *, after: int = 0, patience: float | None = None) -> tuple[int, McpConnection]:
        """An open connection of a generation above `after`, and its generation.

        Waits up to `patience` seconds: by default the rest of `start_timeout` for a
        link that was never open, `REOPEN_S` for one that is being re-opened. A link
        that is down makes nobody wait.

        Raises:
            Failure: `NOT_SENT`, saying why there is none.
        """
        if patience is None:
            patience = REOPEN_S if self.generation else self._first_patience()
        until = time.monotonic() + patience
        while True:
            if self._connection is not None and self.generation > after and not self._connection.is_over:
                return self.generation, self._connection
            left = until - time.monotonic()
            if left <= 0 or self.state in (SessionState.DOWN, SessionState.CLOSED):
                raise CallFailure(CallOutcome.NOT_SENT, self.error or "it is still opening")
            try:
                async with asyncio.timeout(left):
                    await self._pulse.wait()
            except TimeoutError:
                continue

    async def close(self) -> None:
        """End the session and its task, within `CLOSE_S` whatever hangs.

        The owner is asked, not cancelled: a cancellation that lands in the SDK's own
        bounded shutdown of a child would break it and leave the child behind.
        """
        self._ending = True
        self._wake.set()
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())
        if not self._task.done():
            await asyncio.wait({self._task}, timeout=CLOSE_S)
        if not self._task.done():
            logger.warning("upstream %s did not close within %g s", self._label, CLOSE_S)
        self._move(SessionState.CLOSED)

    def _first_patience(self) -> float:
        return max(0.0, self._started + self._config.start_timeout - time.monotonic())

    async def _own(self) -> None:
        connect = await _connect()
        while not self._ending:
            opened = time.monotonic()
            try:
                await self._session(connect)
            except Exception as error:  # noqa: BLE001 - whatever an upstream raises stays in its link
                failure: Exception | None = error
            else:
                failure = None
            if not self._ending:
                self._failed(failure, held_s=time.monotonic() - opened)
                await self._back_off()
        self._move(SessionState.CLOSED)

    async def _session(self, connect: Connect) -> None:
        """Open, serve until it ends or is to end, close."""
        started = time.monotonic()
        self._wake.clear()
        self._stale = False
        async with AsyncExitStack() as stack:
            async with self._in_time():
                connection = await stack.enter_async_context(
                    connect(
                        self._config,
                        log=self._around.log,
                        pool=self._around.pool,
                        changed=self._tools_changed,
                        over=self._wake.set,
                    )
                )
                tools = await connection.tools()
            self._opened(connection, tools, ms=(time.monotonic() - started) * 1_000)
            listening = asyncio.create_task(connection.listen(self._tools_changed))
            listening.add_done_callback(self._listened)
            try:
                await self._serve(connection)
            finally:
                listening.cancel()
                self._connection = None

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        """At most `start_timeout`, or until the link is to end."""
        limit = 0.0 if self._ending else self._config.start_timeout
        async with asyncio.timeout(limit) as self._limit:
            try:
                yield
            finally:
                self._limit = None

    def _opened(self, connection: McpConnection, tools: tuple[RemoteTool, ...], *, ms: float) -> None:
        self._connection = connection
        self.generation += 1
        self.open_ms = ms
        self.error = ""
        self.server = connection.server
        self._used = time.monotonic()
        self._around.tools(tools)
        self._move(SessionState.OPEN)

    async def _serve(self, connection: McpConnection) -> None:
        """Until the session is over, idle for too long, or to end; re-reads changed tools."""
        while not (connection.is_over or self._ending):
            if self._stale:
                self._stale = False
                async with self._in_time():
                    self._around.tools(await connection.tools())
            idle_left = self._idle_left()
            if idle_left is not None and idle_left <= 0:
                self._ending = True
                return
            try:
                async with asyncio.timeout(idle_left):
                    await self._wake.wait()
            except TimeoutError:
                continue
            self._wake.clear()
        self._connection = None
        if not self._ending:
            self._move(SessionState.LOST)
            await self._drain(connection)

    def _idle_left(self) -> float | None:
        if self._idle_close is None or self.busy:
            return None
        return self._used + self._idle_close - time.monotonic()

    async def _drain(self, connection: McpConnection) -> None:
        """Let calls in flight still be answered: the server may have forgotten the session for one of them only."""
        try:
            async with asyncio.timeout(DRAIN_S):
                while connection.in_flight and not self._ending:
                    await self._wake.wait()
                    self._wake.clear()
        except TimeoutError:
            logger.info("upstream %s: %d calls were cut off", self._label, connection.in_flight)

    def _tools_changed(self) -> None:
        self._stale = True
        self._wake.set()

    def _listened(self, listening: asyncio.Task[None]) -> None:
        if not listening.cancelled() and (error := listening.exception()) is not None:
            logger.info("upstream %s: no news of changed tools: %s", self._label, type(error).__name__)

    def _failed(self, error: Exception | None, *, held_s: float) -> None:
        was_open = self.state in (SessionState.OPEN, SessionState.LOST) and held_s >= STABLE_S
        self.failures = 1 if was_open else self.failures + 1
        self.error = reason_of(error, self._config) if error is not None else "its session ended"
        is_down = self.failures > self._config.retries or isinstance(error, _PERMANENT)
        logger.info("upstream %s: %s (failure %d)", self._label, self.error, self.failures)
        self._move(SessionState.DOWN if is_down else SessionState.LOST)

    async def _back_off(self) -> None:
        delay = min(self._config.backoff * 2 ** (self.failures - 1), self._config.backoff_max)
        until = time.monotonic() + delay * (0.5 + self._around.jitter() / 2)
        while not self._ending and (left := until - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._wake.wait()
            except TimeoutError:
                return
            self._wake.clear()

    def _move(self, state: SessionState) -> None:
        self.state = state
        pulse, self._pulse = self._pulse, asyncio.Event()
        pulse.set()
        self._around.changed()


async def _connect() -> Connect:
    if _SDK_SIDE not in sys.modules:
        await asyncio.to_thread(importlib.import_module, _SDK_SIDE)
    from zoea.tools.upstream.mcp_connection import connect

    return connect
