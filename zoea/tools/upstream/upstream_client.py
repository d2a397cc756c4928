"""An MCP server whose tools the myses use: its sessions, its tools, its calls.

One link (session and owner task) where the session is shared, one per mysis
where it is not. Calls run here, in their callers' tasks, bounded in number and time.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoea.model.errors import ToolError, UpstreamLost
from zoea.model.request import ToolSpec
from zoea.tools.catalogue import RemoteTool, to_tool_spec
from zoea.tools.upstream.call_failure import CallFailure, CallOutcome
from zoea.tools.upstream.http_pool import HttpPool
from zoea.tools.upstream.session import SessionContext, SessionState, UpstreamSession
from zoea.tools.upstream.stderr_log import StderrLog
from zoea.tools.upstream.upstream_config import Sharing, UpstreamConfig

META_MYSIS = "zoea/mysis"
_SPARE = ""
_SMOOTHING = 0.2


@dataclass(frozen=True, slots=True)
class UpstreamStatus:
    """What a front shows of an upstream. Milliseconds; None where nothing was measured yet.

    `state` is opening, open, lost (being re-opened), down (retries spent, still
    tried slowly) or closed; of several sessions the best one's.
    """

    name: str
    transport: str
    state: str
    tools: int
    sessions: int
    in_flight: int
    calls: int
    errors: int
    latency_ms: float | None
    open_ms: float | None
    last_error: str
    server: str
    log: str
    required: bool


class Upstream:
    """One configured MCP server. All methods belong to the loop that opened it.

    Args:
        config: What it is.
        logs: The folder for `upstream-NAME.log`.
        pool: The process's HTTP connections.
        changed: Told when its tools or its state changed.
        jitter: A number in [0, 1), for back-off.
    """

    def __init__(
        self,
        config: UpstreamConfig,
        *,
        logs: Path,
        pool: HttpPool,
        changed: Callable[[], None] = lambda: None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.config = config
        self.name = config.name
        self.tools: tuple[ToolSpec, ...] = ()
        self.version = 0
        self._log = StderrLog(logs / f"upstream-{config.name}.log")
        self._around = SessionContext(
            config, self._log, pool, tools=self._tools_read, changed=self._beat, jitter=jitter
        )
        self._told = changed
        self._schemas: dict[str, dict[str, Any]] = {}
        self._links: dict[str, UpstreamSession] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(config.max_parallel)
        self._pulse = asyncio.Event()
        self._awaited = 0
        self._listed = False
        self._closed = False
        self._started = time.monotonic()
        self._calls = self._errors = self._in_flight = 0
        self._latency_ms: float | None = None
        self._last_error = ""

    def open(self) -> None:
        """Begin to open. Returns at once; `settled` waits."""
        self._started = time.monotonic()
        self._links[_SPARE] = self._link(_SPARE)

    async def reopen(self) -> None:
        """End every session and begin to open anew; calls in flight are cut off. Raises UpstreamLost once closed."""
        if self._closed:
            raise UpstreamLost(f"upstream {self.name} is closed", was_sent=False)
        old, self._links = tuple(self._links.values()), {}
        for link in old:
            self._retire(link)
        self._last_error = ""
        self.open()
        self._beat()

    async def settled(self) -> bool:
        """Wait until its tools are known, it is down, or `start_timeout` since `open` is over; True where known."""
        until = self._started + self.config.start_timeout
        while not (self._listed or self.is_down or self._closed) and (left := until - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._change()
            except TimeoutError:
                break
        return self._listed

    @property
    def is_down(self) -> bool:
        """True where its retries are spent and no session is open."""
        states = {link.state for link in self._links.values()}
        return SessionState.DOWN in states and SessionState.OPEN not in states

    async def call(
        self, tool: str, arguments: dict[str, Any], *, mysis: str, deadline_s: float, repeatable: bool
    ) -> dict[str, Any]:
        """`tools/call` under the caller's deadline: the result as wire JSON, error results included.

        A call that certainly did not reach the server, or is `repeatable`, is made once
        more on a new session. A cancelled caller cancels at the server.

        Raises:
            UpstreamLost: No session; `was_sent` says whether the call may have been carried out.
            ToolError: The server refused the request itself, or the deadline passed.
        """
        began = time.monotonic()
        self._calls += 1
        self._in_flight += 1
        try:
            async with asyncio.timeout(deadline_s):
                async with self._slots:
                    wire = await self._attempts(tool, arguments, mysis, deadline_s, repeatable)
        except TimeoutError:
            self._errors += 1
            raise self._late(tool, deadline_s, repeatable) from None
        except ToolError as error:
            self._errors += 1
            self._last_error = error.what
            raise
        finally:
            self._in_flight -= 1
        self._measure((time.monotonic() - began) * 1_000)
        return wire

    async def ping(self) -> float:
        """How many milliseconds the server takes to list its tools again.

        Raises:
            UpstreamLost: No session is open.
        """
        link = next((link for link in self._links.values() if link.state is SessionState.OPEN), None)
        began = time.monotonic()
        try:
            if link is None:
                raise CallFailure(CallOutcome.NOT_SENT, "no session is open")
            _, connection = await link.ready()
            async with asyncio.timeout(self.config.start_timeout):
                self._tools_read(await connection.tools())
        except (CallFailure, TimeoutError) as error:
            raise UpstreamLost(f"upstream {self.name} does not answer: {error}", was_sent=False) from None
        return (time.monotonic() - began) * 1_000

    def schema_of(self, tool: str) -> Mapping[str, Any]:
        """A tool's input schema as the server listed it, injected arguments included; empty where it listed none."""
        return self._schemas.get(tool, {})

    def release(self, mysis: str) -> None:
        """Close the session that is this mysis's own, if it is not in use."""
        link = self._links.get(mysis) if self.config.session is Sharing.PER_MYSIS else None
        if link is not None and not link.busy:
            self._retire(self._links.pop(mysis))

    async def close(self) -> None:
        """End every session, within the bound of one."""
        self._closed = True
        await asyncio.gather(*(link.close() for link in self._links.values()), *self._closing)
        self._log.close()
        self._beat()

    def status(self) -> UpstreamStatus:
        """Where it stands now."""
        links = [link for link in self._links.values() if not link.is_closed]
        order = (SessionState.OPEN, SessionState.OPENING, SessionState.LOST, SessionState.DOWN)
        state = next((state for state in order if any(link.state is state for link in links)), SessionState.CLOSED)
        error = next((link.error for link in links if link.error), "")
        return UpstreamStatus(
            name=self.name,
            transport=self.config.transport,
            state=state.value,
            tools=len(self.tools),
            sessions=sum(1 for link in links if link.state is SessionState.OPEN),
            in_flight=self._in_flight,
            calls=self._calls,
            errors=self._errors,
            latency_ms=self._latency_ms,
            open_ms=next((link.open_ms for link in links if link.open_ms is not None), None),
            last_error=error or self._last_error,
            server=next((link.server for link in links if link.server), ""),
            log=str(self._log.path) if self.config.command else "",
            required=self.config.required,
        )

    async def _attempts(
        self, tool: str, arguments: dict[str, Any], mysis: str, deadline_s: float, repeatable: bool
    ) -> dict[str, Any]:
        meta = {META_MYSIS: mysis}
        try:
            link = await self._link_of(mysis)
        except CallFailure as failure:
            raise self._lost(failure, may_have_run=False) from None
        try:
            generation, connection = await link.ready()
            try:
                return await connection.call(tool, arguments, meta)
            except CallFailure as failure:
                if failure.fate is CallOutcome.ANSWERED or not (failure.did_nothing or repeatable):
                    raise
                if failure.did_nothing:
                    connection.end()
                # One broken HTTP exchange leaves its session standing.
                after = generation if connection.is_over else generation - 1
            _, connection = await link.ready(after=after, patience=deadline_s)
            return await connection.call(tool, arguments, meta)
        except CallFailure as failure:
            if failure.fate is CallOutcome.ANSWERED:
                raise ToolError(f"{self.name} refused {tool}: {failure.text}") from None
            raise self._lost(failure, may_have_run=not (failure.did_nothing or repeatable)) from None
        finally:
            link.unuse()
            self._stir()

    def _lost(self, failure: CallFailure, may_have_run: bool) -> UpstreamLost:
        what = f"upstream {self.name} is not available: {failure.text}"
        hint = (
            "The call may or may not have been carried out; check before repeating it."
            if may_have_run
            else "The call was not carried out. Zoea is re-opening it; try again later or go on without it."
        )
        return UpstreamLost(what, hint=hint, was_sent=may_have_run)

    def _late(self, tool: str, deadline_s: float, repeatable: bool) -> ToolError:
        hint = "" if repeatable else "It may or may not have been carried out; check before repeating it."
        self._last_error = f"{tool} did not answer within {deadline_s:g} s"
        return ToolError(f"{tool} did not answer within {deadline_s:g} s and was cancelled", hint=hint)

    async def _link_of(self, mysis: str) -> UpstreamSession:
        """The link that this mysis calls on, in use from now; makes one, or room for one, where each has its own."""
        while True:
            if self._closed:
                raise CallFailure(CallOutcome.NOT_SENT, "it is closed")
            key = _SPARE if self.config.session is Sharing.SHARED else mysis
            link = self._links.get(key) or self._links.pop(_SPARE, None)
            if link is not None and link.is_ending:
                self._links.pop(key, None)
                self._retire(link)
                link = None
            if link is None and len(self._links) + len(self._closing) < self.config.max_sessions:
                link = self._link(mysis)
            if link is not None:
                self._links[key] = link
                link.use()
                return link
            await self._make_room()

    async def _make_room(self) -> None:
        """Close the session that was idle longest; wait until something changes."""
        idle = [(link.last_used, key) for key, link in self._links.items() if not link.busy]
        if idle and not self._closing:
            self._retire(self._links.pop(min(idle)[1]))
        await self._change()

    def _retire(self, link: UpstreamSession) -> None:
        closing = asyncio.create_task(link.close(), name=f"upstream {self.name} closes a session")
        self._closing.add(closing)
        closing.add_done_callback(self._retired)

    def _retired(self, closing: asyncio.Task[None]) -> None:
        self._closing.discard(closing)
        self._beat()

    def _link(self, mysis: str) -> UpstreamSession:
        shared = self.config.session is Sharing.SHARED
        label = self.name if not mysis else f"{self.name} for {mysis}"
        return UpstreamSession(self._around, label=label, idle_close=None if shared else self.config.idle_close)

    def _tools_read(self, tools: tuple[RemoteTool, ...]) -> None:
        self._schemas = {tool.name: tool.input_schema for tool in tools}
        specs = tuple(to_tool_spec(tool, self.config) for tool in tools)
        if specs != self.tools or not self._listed:
            self.tools = specs
            self.version += 1
        self._listed = True
        self._beat()

    def _beat(self) -> None:
        self._stir()
        self._told()

    def _stir(self) -> None:
        """Wake who waits for something to change here."""
        if self._awaited:
            self._awaited = 0
            pulse, self._pulse = self._pulse, asyncio.Event()
            pulse.set()

    async def _change(self) -> None:
        self._awaited += 1
        await self._pulse.wait()

    def _measure(self, ms: float) -> None:
        old = self._latency_ms
        self._latency_ms = ms if old is None else old + _SMOOTHING * (ms - old)
