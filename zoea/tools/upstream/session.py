"""One session of an upstream, and the task that owns it.

The owner task opens, closes and reopens the session and does nothing else, because the SDK's
cancel scopes must be entered and left in one task. Calls run in their callers' tasks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct

from zoea.process.clock import read_uptime_s
from zoea.process.module_imports import import_in_thread
from zoea.tools.catalogue import RemoteTool
from zoea.tools.upstream.stderr_log import StderrLog
from zoea.tools.upstream.upstream_config import UpstreamConfig
from zoea.tools.upstream.upstream_errors import CallFailure, CallOutcome, describe_failure, is_permanent

if TYPE_CHECKING:
    from zoea.tools.upstream.http_pool import HttpPool  # loads httpx2
    from zoea.tools.upstream.mcp_connection import McpConnection

    Connect = Callable[..., AbstractAsyncContextManager[McpConnection]]

logger = logging.getLogger(__name__)

CLOSE_S = 5.0
"""Limit for closing: a child is ended within 3 s, by force if needed."""
REOPEN_S = 5.0
"""Time that a new call waits for a session that has just been lost."""
STABLE_S = 10.0
"""A session that lasted this long resets the back-off."""
TOOLS_AGAIN_S, TOOLS_AGAIN_MOST_S = 1.0, 15.0
"""Shortest time between two readings of changed tools. It doubles up to the second while they go on changing."""
DRAIN_S = 2.0
"""Time for calls in flight on a session that the server has forgotten."""

_SDK_MODULE = "zoea.tools.upstream.mcp_connection"
"""Imported in a thread at the first opening, because the SDK takes 0.6 s."""


class SessionState(StrEnum):
    OPENING = "opening"
    OPEN = "open"
    LOST = "lost"
    DOWN = "down"
    CLOSED = "closed"


class SessionContext(Struct, frozen=True):
    """Parts of an upstream that its sessions share.

    Args:
        on_tools: Called with each list of tools that a session reads.
        on_change: Called at any change of state.
        jitter: A random number in [0, 1).
    """

    config: UpstreamConfig
    log: StderrLog
    pool: Callable[[], HttpPool]
    on_tools: Callable[[tuple[RemoteTool, ...]], None]
    on_change: Callable[[], None]
    jitter: Callable[[], float]


class UpstreamSession:
    """One session: opened at once, reopened when lost, closed when idle for `idle_close` seconds."""

    def __init__(self, context: SessionContext, *, label: str, idle_close: float | None) -> None:
        self._context = context
        self._config = context.config
        self._label = label
        self._idle_close = idle_close
        self._connection: McpConnection | None = None
        self._pulse = asyncio.Event()
        self._wake = asyncio.Event()
        self._stale = False
        self._end_reason = ""
        self._ending = False
        self._limit: asyncio.Timeout | None = None
        self._started = read_uptime_s()
        self._used = self._started
        self.state = SessionState.OPENING
        self.generation = 0
        self.failures = 0
        self.busy = 0
        self.error = ""
        self.open_ms: float | None = None
        self.server = ""
        self._task = asyncio.create_task(self._run(), name=f"upstream {label}")

    @property
    def is_closed(self) -> bool:
        return self._task.done()

    @property
    def is_ending(self) -> bool:
        """True once it takes no more calls."""
        return self._ending or self._task.done()

    @property
    def last_used(self) -> float:
        """`read_uptime_s()` of the last call's start or end."""
        return self._used

    def begin_call(self) -> None:
        """Mark the begin of a call: the session must not be closed."""
        self.busy += 1
        self._used = read_uptime_s()

    def end_call(self) -> None:
        """Mark the end of a call."""
        self.busy -= 1
        self._used = read_uptime_s()

    async def ready(self, *, after: int = 0, patience: float | None = None) -> tuple[int, McpConnection]:
        """Wait for an open connection of a generation above `after`; return generation and connection.

        Args:
            patience: Seconds; by default the rest of `start_timeout` for a session that was
                never open, else `REOPEN_S`. A session that is down is not waited for.

        Raises:
            CallFailure: `NOT_SENT`, with the reason.
        """
        if patience is None:
            start_left = self._started + self._config.start_timeout - read_uptime_s()
            patience = REOPEN_S if self.generation else max(0.0, start_left)
        until = read_uptime_s() + patience
        while True:
            if self._connection is not None and self.generation > after and not self._connection.is_over:
                return self.generation, self._connection
            left = until - read_uptime_s()
            if left <= 0 or self.state in (SessionState.DOWN, SessionState.CLOSED):
                raise CallFailure(CallOutcome.NOT_SENT, self.error or "it is still opening")
            try:
                async with asyncio.timeout(left):
                    await self._pulse.wait()
            except TimeoutError:
                continue

    async def close(self) -> None:
        """End the session and its task, within `CLOSE_S`.

        The task is asked to end, not cancelled: a cancellation during the SDK's own bounded
        shutdown of a child would leave the child running.
        """
        self._ending = True
        self._wake.set()
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())
        if not self._task.done():
            await asyncio.wait({self._task}, timeout=CLOSE_S)
        if not self._task.done():
            logger.warning("upstream %s did not close within %g s", self._label, CLOSE_S)
        self._set_state(SessionState.CLOSED)

    async def _run(self) -> None:
        connect = await _load_connect()
        while not self._ending:
            opened = read_uptime_s()
            try:
                await self._serve_once(connect)
            except Exception as error:  # noqa: BLE001 - any error of an upstream stays in its session
                failure: Exception | None = error
            else:
                failure = None
            if not self._ending:
                self._on_failure(failure, held_s=read_uptime_s() - opened)
                await self._back_off()
        self._set_state(SessionState.CLOSED)

    async def _serve_once(self, connect: Connect) -> None:
        """Open a session, wait for its end, and close it."""
        started = read_uptime_s()
        self._wake.clear()
        self._stale = False
        self._end_reason = ""
        async with AsyncExitStack() as stack:
            async with self._limit_time():
                connection = await stack.enter_async_context(
                    connect(
                        self._config,
                        log=self._context.log,
                        pool=self._context.pool(),
                        on_tools_changed=self._on_tools_changed,
                        on_end=self._wake.set,
                    )
                )
                tools = await connection.tools()
            self._on_open(connection, tools, ms=(read_uptime_s() - started) * 1_000)
            listening = asyncio.create_task(connection.listen(self._on_tools_changed))
            listening.add_done_callback(self._on_listen_end)
            try:
                await self._wait_for_end(connection)
            finally:
                listening.cancel()
                self._connection = None

    @asynccontextmanager
    async def _limit_time(self) -> AsyncIterator[None]:
        """Limit the block to `start_timeout`, and end it when the session is to close."""
        limit = 0.0 if self._ending else self._config.start_timeout
        async with asyncio.timeout(limit) as self._limit:
            try:
                yield
            finally:
                self._limit = None

    def _on_open(self, connection: McpConnection, tools: tuple[RemoteTool, ...], *, ms: float) -> None:
        self._connection = connection
        self.generation += 1
        self.open_ms = ms
        self.error = ""
        self.server = connection.server
        self._used = read_uptime_s()
        self._context.on_tools(tools)
        self._set_state(SessionState.OPEN)

    async def _wait_for_end(self, connection: McpConnection) -> None:
        """Wait until the session is over, idle for too long, or to close. Read changed tools again."""
        read_again_at, rest = -inf, TOOLS_AGAIN_S
        while not (connection.is_over or self._ending):
            pause = read_again_at - read_uptime_s() if self._stale else None
            if pause is not None and pause <= 0:
                self._stale = False
                pause = None
                now = read_uptime_s()
                rest = min(2 * rest, TOOLS_AGAIN_MOST_S) if now < read_again_at + rest else TOOLS_AGAIN_S
                read_again_at = now + rest
                async with self._limit_time():
                    self._context.on_tools(await connection.tools())
            idle_left = self._idle_time_left()
            if idle_left is not None and idle_left <= 0:
                self._ending = True
                return
            try:
                async with asyncio.timeout(min((one for one in (idle_left, pause) if one is not None), default=None)):
                    await self._wake.wait()
            except TimeoutError:
                continue
            self._wake.clear()
        self._connection = None
        self._end_reason = connection.end_reason
        if not self._ending:
            self._set_state(SessionState.LOST)
            await self._drain(connection)

    def _idle_time_left(self) -> float | None:
        if self._idle_close is None or self.busy:
            return None
        return self._used + self._idle_close - read_uptime_s()

    async def _drain(self, connection: McpConnection) -> None:
        """Wait for calls in flight, because the server may have lost only one of them."""
        try:
            async with asyncio.timeout(DRAIN_S):
                while connection.in_flight and not self._ending:
                    await self._wake.wait()
                    self._wake.clear()
        except TimeoutError:
            logger.info("upstream %s: %d calls were cut off", self._label, connection.in_flight)

    def _on_tools_changed(self) -> None:
        self._stale = True
        self._wake.set()

    def _on_listen_end(self, listening: asyncio.Task[None]) -> None:
        if not listening.cancelled() and (error := listening.exception()) is not None:
            logger.info("upstream %s: no notices of changed tools: %s", self._label, type(error).__name__)

    def _on_failure(self, error: Exception | None, *, held_s: float) -> None:
        was_open = self.state in (SessionState.OPEN, SessionState.LOST) and held_s >= STABLE_S
        self.failures = 1 if was_open else self.failures + 1
        reason = self._end_reason or "its session ended"
        self.error = describe_failure(error, self._config) if error is not None else reason
        is_down = self.failures > self._config.retries or (
            error is not None and is_permanent(error, was_open=self.generation > 0)
        )
        logger.info("upstream %s: %s (failure %d)", self._label, self.error, self.failures)
        self._set_state(SessionState.DOWN if is_down else SessionState.LOST)

    async def _back_off(self) -> None:
        delay = min(self._config.backoff * 2 ** (self.failures - 1), self._config.backoff_max)
        until = read_uptime_s() + delay * (0.5 + self._context.jitter() / 2)
        while not self._ending and (left := until - read_uptime_s()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._wake.wait()
            except TimeoutError:
                return
            self._wake.clear()

    def _set_state(self, state: SessionState) -> None:
        self.state = state
        pulse, self._pulse = self._pulse, asyncio.Event()
        pulse.set()
        self._context.on_change()


async def _load_connect() -> Connect:
    """Import the SDK in a thread."""
    connect: Connect = (await import_in_thread(_SDK_MODULE)).connect
    return connect
