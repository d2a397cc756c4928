"""An upstream: an MCP server with its sessions, tools and calls.

All myses share one session, or each has its own. Calls run in their callers' tasks, limited in
number and time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from zoea.model.errors import ToolError, UpstreamLost
from zoea.model.request import SendState, ToolResult, ToolSpec
from zoea.model.values import UpstreamView
from zoea.process.clock import read_uptime_s
from zoea.settings.endpoints import Sharing
from zoea.tools.catalogue import RemoteTool, to_tool_spec
from zoea.tools.tool_bounds import bound_tools
from zoea.tools.upstream.sent_secrets import SentSecrets, mask_result, mask_secrets
from zoea.tools.upstream.session import SessionContext, SessionState, UpstreamSession
from zoea.tools.upstream.stderr_log import StderrLog
from zoea.tools.upstream.upstream_config import UpstreamConfig
from zoea.tools.upstream.upstream_errors import (
    HIDDEN,
    CallFailure,
    CallOutcome,
    find_repeated,
    redact_output,
    redact_secrets,
)

if TYPE_CHECKING:
    from zoea.tools.upstream.http_pool import HttpPool  # loads httpx2

logger = logging.getLogger(__name__)

META_MYSIS = "zoea/mysis"
_SPARE = ""
_SMOOTHING = 0.2
_LAST_ERROR = 1_000


class Upstream:
    """One configured MCP server. All methods belong to the loop that opened it.

    Args:
        logs: The folder for `upstream-NAME.log`.
        on_change: Called when its tools or its state changed.
        jitter: A random number in [0, 1), for the back-off.
    """

    def __init__(
        self,
        config: UpstreamConfig,
        *,
        logs: Path,
        pool: Callable[[], HttpPool],
        on_change: Callable[[], None] = lambda: None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.config = config
        self.name = config.name
        self.tools: tuple[ToolSpec, ...] = ()
        self.notes: tuple[str, ...] = ()
        self.version = 0
        self._secrets = SentSecrets()
        self._log = StderrLog(
            logs / f"upstream-{config.name}.log", mask=lambda text: redact_output(self._secrets.mask(text), self.config)
        )
        self._context = SessionContext(
            config,
            self._log,
            pool,
            on_tools=(lambda _: None) if config.listed else self._set_tools,
            on_change=self._notify,
            jitter=jitter,
        )
        self._arguments: dict[str, tuple[str, ...]] = {}
        self._folders: dict[str, Path] = {}
        self._on_change = on_change
        self._schemas: dict[str, dict[str, Any]] = {}
        self._sessions: dict[str, UpstreamSession] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(config.max_parallel)
        self._pulse = asyncio.Event()
        self._awaited = 0
        self._listed = False
        self._closed = False
        self._started = read_uptime_s()
        self._calls = self._errors = self._in_flight = 0
        self._latency_ms: float | None = None
        self._last_error = ""

    def open(self) -> None:
        """Begin to open, and return at once; `settled` waits."""
        self._started = read_uptime_s()
        if self.config.listed:
            self._set_tools(self.config.listed)
        elif not self.config.in_worktree:  # else `place` opens the first
            self._sessions[_SPARE] = self._open_session(_SPARE)

    def bind(self, mysis: str, arguments: tuple[str, ...]) -> None:
        """Set the arguments of the process for one mysis, after those of all. Other ones end its session."""
        if self._arguments.get(mysis, arguments) != arguments:
            self.release(mysis)
        self._arguments[mysis] = arguments

    def place(self, mysis: str, folder: Path) -> None:
        """Set the folder that a mysis works in. The first one opens a session, which lists the tools."""
        if self._folders.get(mysis, folder) != folder:
            self.release(mysis)
        self._folders[mysis] = folder
        if not (self._listed or self._sessions or self._closed):
            self._started = read_uptime_s()
            self._sessions[mysis] = self._open_session(mysis)

    async def released(self) -> None:
        """Wait until the sessions that were released are closed."""
        await asyncio.gather(*self._closing)

    async def reopen(self) -> None:
        """End every session and open a new one; calls in flight fail. Raises UpstreamLost once closed."""
        if self._closed:
            raise UpstreamLost(f"upstream {self.name} is closed", was_sent=False)
        old, self._sessions = tuple(self._sessions.values()), {}
        for session in old:
            self._retire(session)
        self._last_error = ""
        self.open()
        self._notify()

    async def settled(self) -> bool:
        """Wait for the tools, at most `start_timeout` or until it is down. True if they are known."""
        if self.config.in_worktree and not self._sessions:
            return self._listed
        until = self._started + self.config.start_timeout
        while not (self._listed or self.is_down or self._closed) and (left := until - read_uptime_s()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._wait_for_change()
            except TimeoutError:
                break
        return self._listed

    @property
    def is_down(self) -> bool:
        """True if its retries are spent and no session is open."""
        states = {session.state for session in self._sessions.values()}
        return SessionState.DOWN in states and SessionState.OPEN not in states

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        mysis: str,
        deadline_s: float,
        repeatable: bool,
        state: SendState | None = None,
        secrets: Iterable[str] = (),
        check: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        """Call a tool within a deadline; return the result as wire JSON, error results included.

        `secrets` are texts in the arguments that no error, status or log may hold. `check` is called right
        before the call is sent, because the tools may change while it waits for a session; it raises
        ToolError where the call must not be sent any more.

        A call that certainly did not reach the server, or is `repeatable`, is made once more on
        a new session. Cancelling the caller cancels at the server.

        Raises:
            UpstreamLost: There is no session; `was_sent` says whether the call may have been carried out.
            ToolError: The server refused the request itself, or the deadline passed.
        """
        began = read_uptime_s()
        self._secrets.add(secrets)
        self._calls += 1
        self._in_flight += 1
        try:
            async with asyncio.timeout(deadline_s):
                async with self._slots:
                    state = state or SendState()
                    wire = await self._attempts(tool, arguments, mysis, deadline_s, repeatable, state, check)
        except TimeoutError:
            self._errors += 1
            raise self._timeout_error(tool, deadline_s, repeatable) from None
        except ToolError as error:
            self._errors += 1
            self._last_error = error.what[:_LAST_ERROR]
            raise
        finally:
            self._in_flight -= 1
        ms = (read_uptime_s() - began) * 1_000
        old = self._latency_ms
        self._latency_ms = ms if old is None else old + _SMOOTHING * (ms - old)
        return wire

    async def ping(self) -> float:
        """Read the list of tools again; return the milliseconds it took.

        Raises:
            UpstreamLost: No session is open.
        """
        session = next((session for session in self._sessions.values() if session.state is SessionState.OPEN), None)
        began = read_uptime_s()
        try:
            if session is None:
                raise CallFailure(CallOutcome.NOT_SENT, "no session is open")
            _, connection = await session.ready()
            async with asyncio.timeout(self.config.start_timeout):
                self._set_tools(await connection.tools())
        except (CallFailure, TimeoutError) as error:
            raise UpstreamLost(f"upstream {self.name} does not answer: {error}", was_sent=False) from None
        return (read_uptime_s() - began) * 1_000

    def schema_of(self, tool: str) -> Mapping[str, Any]:
        """Return a tool's input schema as listed, injected arguments included; empty if there is none."""
        return self._schemas.get(tool, {})

    def release(self, mysis: str) -> None:
        """Close the session of this mysis, if it has one that is not in use."""
        session = self._sessions.get(mysis) if self.config.session is Sharing.PER_MYSIS else None
        if session is not None and not session.busy:
            self._retire(self._sessions.pop(mysis))

    async def close(self) -> None:
        """End all sessions together, within `CLOSE_S`."""
        self._closed = True
        await asyncio.gather(*(session.close() for session in self._sessions.values()), *self._closing)
        self._log.close()
        self._notify()

    def status(self) -> UpstreamView:
        """Return the current state, without the tools."""
        sessions = [session for session in self._sessions.values() if not session.is_closed]
        order = (SessionState.OPEN, SessionState.OPENING, SessionState.LOST, SessionState.DOWN)
        state = next(
            (state for state in order if any(session.state is state for session in sessions)), SessionState.CLOSED
        )
        error = next((session.error for session in sessions if session.error), "")
        return UpstreamView(
            name=self.name,
            transport=self.config.transport,
            state=state.value,
            sessions=sum(1 for session in sessions if session.state is SessionState.OPEN),
            in_flight=self._in_flight,
            calls=self._calls,
            errors=self._errors,
            latency_ms=self._latency_ms,
            open_ms=next((session.open_ms for session in sessions if session.open_ms is not None), None),
            last_error=self._hide(error) or self._last_error,
            server=next((session.server for session in sessions if session.server), ""),
            log=str(self._log.path) if self.config.command else "",
            required=self.config.required,
            notes=self.notes,
        )

    async def _attempts(
        self,
        tool: str,
        arguments: dict[str, Any],
        mysis: str,
        deadline_s: float,
        repeatable: bool,
        state: SendState,
        check: Callable[[], None],
    ) -> dict[str, Any]:
        meta = {META_MYSIS: mysis}
        try:
            session = await self._session_of(mysis)
        except CallFailure as failure:
            raise self._lost_error(failure, was_sent=False) from None
        try:
            generation, connection = await session.ready()
            check()
            try:
                return await connection.call(tool, arguments, meta, state)
            except CallFailure as failure:
                has_answered = failure.outcome in (CallOutcome.ANSWERED, CallOutcome.UNREADABLE)
                if has_answered or not (failure.did_nothing or repeatable):
                    raise
                if failure.did_nothing:
                    connection.end()
                # After one broken HTTP exchange the session still works.
                after = generation if connection.is_over else generation - 1
            _, connection = await session.ready(after=after, patience=deadline_s)
            check()
            return await connection.call(tool, arguments, meta, state)
        except CallFailure as failure:
            if failure.outcome is CallOutcome.ANSWERED:
                raise ToolError(f"{self.name} refused {tool}: {self._hide(failure.text)}") from None
            if failure.outcome is CallOutcome.UNREADABLE:
                raise self._unreadable_error(tool, failure, repeatable) from None
            raise self._lost_error(failure, not failure.did_nothing, repeatable=repeatable) from None
        finally:
            session.end_call()
            self._wake_waiters()

    def _hide(self, text: str) -> str:
        """Hide secrets of calls and configuration, because a server may repeat them."""
        return redact_secrets(self._secrets.mask(text), self.config)

    def hide_secrets(self, result: ToolResult) -> ToolResult:
        """Hide the secrets that the server got in a result that repeats them. The same object if it holds none."""
        return mask_result(result, find_repeated(self.config), HIDDEN)

    def _lost_error(self, failure: CallFailure, was_sent: bool, *, repeatable: bool = False) -> UpstreamLost:
        what = f"upstream {self.name} is not available: {self._hide(failure.text)}"
        if was_sent and not repeatable:
            hint = "The call may or may not have been carried out; check before repeating it."
            return UpstreamLost(what, hint=hint, was_sent=True)
        hint = "" if was_sent else "The call was not carried out. "
        return UpstreamLost(what, hint=f"{hint}Zoea reopens it; try again later or go on without it.", was_sent=False)

    def _unreadable_error(self, tool: str, failure: CallFailure, repeatable: bool) -> ToolError:
        what = f"the result of {tool} is lost: {self._hide(failure.text)}"
        hint = "" if repeatable else "The call was probably carried out; check before repeating it."
        return ToolError(what, hint=hint)

    def _timeout_error(self, tool: str, deadline_s: float, repeatable: bool) -> ToolError:
        hint = "" if repeatable else "It may or may not have been carried out; check before repeating it."
        self._last_error = f"{tool} did not answer within {deadline_s:g} s"
        return ToolError(f"{tool} did not answer within {deadline_s:g} s and was cancelled", hint=hint)

    async def _session_of(self, mysis: str) -> UpstreamSession:
        """Return the session for this mysis, marked as in use; opens one if needed."""
        while True:
            if self._closed:
                raise CallFailure(CallOutcome.NOT_SENT, "it is closed")
            if self.config.in_worktree and mysis not in self._folders:
                raise CallFailure(CallOutcome.NOT_SENT, f"{mysis} works in no folder")
            key = _SPARE if self.config.session is Sharing.SHARED else mysis
            session = self._sessions.get(key) or self._sessions.pop(_SPARE, None)
            if session is not None and session.is_ending:
                self._sessions.pop(key, None)
                self._retire(session)
                session = None
            if session is None and len(self._sessions) + len(self._closing) < self.config.max_sessions:
                session = self._open_session(mysis)
            if session is not None:
                self._sessions[key] = session
                session.begin_call()
                return session
            idle = [(session.last_used, key) for key, session in self._sessions.items() if not session.busy]
            if idle and not self._closing:  # close the session that was idle longest
                self._retire(self._sessions.pop(min(idle)[1]))
            await self._wait_for_change()

    def _retire(self, session: UpstreamSession) -> None:
        closing = asyncio.create_task(session.close(), name=f"upstream {self.name} closes a session")
        self._closing.add(closing)
        closing.add_done_callback(self._retired)

    def _retired(self, closing: asyncio.Task[None]) -> None:
        self._closing.discard(closing)
        self._notify()

    def _open_session(self, mysis: str) -> UpstreamSession:
        shared = self.config.session is Sharing.SHARED
        label = self.name if not mysis else f"{self.name} for {mysis}"
        context = self._context
        if mysis in self._folders:
            context = replace(context, config=self.config.at(self._folders[mysis]))
        if mysis in self._arguments:
            arguments = (*self.config.args, *self._arguments[mysis])
            context = replace(context, config=self.config.model_copy(update={"args": arguments}))
        return UpstreamSession(context, label=label, idle_close=None if shared else self.config.idle_close)

    def _set_tools(self, listed: tuple[RemoteTool, ...]) -> None:
        secrets = find_repeated(self.config)
        listed = tuple(_hide_in_tool(tool, secrets) for tool in listed) if secrets else listed
        bounded = bound_tools(listed, self.config)
        for note in bounded.notes:
            if note not in self.notes:
                logger.warning("upstream %s: %s", self.name, note)
        self.notes = bounded.notes
        tools = bounded.tools
        self._schemas = {tool.name: tool.input_schema for tool in tools}
        specs = tuple(to_tool_spec(tool, self.config) for tool in tools)
        if specs != self.tools or not self._listed:
            self.tools = specs
            self.version += 1
        self._listed = True
        self._notify()

    def _notify(self) -> None:
        self._wake_waiters()
        self._on_change()

    def _wake_waiters(self) -> None:
        """Wake the tasks in `_wait_for_change`."""
        if self._awaited:
            self._awaited = 0
            pulse, self._pulse = self._pulse, asyncio.Event()
            pulse.set()

    async def _wait_for_change(self) -> None:
        self._awaited += 1
        await self._pulse.wait()


def _hide_in_tool(tool: RemoteTool, secrets: Iterable[str]) -> RemoteTool:
    """Hide the secrets of a server in the description and schema of a tool. Its name stays."""
    written = json.dumps(tool.input_schema)
    schema = mask_secrets(written, secrets, HIDDEN)
    return replace(
        tool,
        description=mask_secrets(tool.description, secrets, HIDDEN),
        input_schema=tool.input_schema if schema == written else json.loads(schema),
    )
