"""The streams between a transport and the SDK: what is sent and received is observed and limited.

They note that a call's message was sent, answer for servers that answer with something unreadable, and drop
messages that nobody waits for above the limit of the upstream.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, cast

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from zoea.model.request import SendState
from zoea.process.clock import read_uptime_s
from zoea.tools.results import bound_parts
from zoea.tools.upstream.unreadable_answer import UNREADABLE, UnreadableMessage, to_key

CANCEL_WRITE_S = 0.5
"""Limit for sending a cancellation to a server that does not read."""
MAX_DROPPED = 5_000
"""Messages over the limit, without a second of calm between them, that end the session."""
CALM_S = 1.0
_TOOLS_CHANGED = "notifications/tools/list_changed"


send_state: ContextVar[SendState | None] = ContextVar("zoea_call_send_state", default=None)


class SessionEnd:
    """Records the end of a session and calls a function then. `reason` is empty if it ended by itself."""

    __slots__ = ("_on_end", "is_over", "reason")

    def __init__(self, on_end: Callable[[], None]) -> None:
        self.is_over = False
        self.reason = ""
        self._on_end = on_end

    def end(self, reason: str = "") -> None:
        self.is_over = True
        self.reason = self.reason or reason
        self._on_end()


class MessageRate:
    """Counts messages that answer no request: `limit` a second pass, those above are dropped."""

    __slots__ = ("_allowed", "_at", "_dropped_at", "dropped", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.dropped = 0
        self._allowed = float(limit)
        self._at = self._dropped_at = read_uptime_s()

    def take(self) -> bool:
        """Count a message; return whether it passes."""
        now = read_uptime_s()
        self._allowed = min(float(self.limit), self._allowed + (now - self._at) * self.limit)
        self._at = now
        if self._allowed >= 1:
            self._allowed -= 1
            return True
        if now - self._dropped_at > CALM_S:
            self.dropped = 0
        self._dropped_at = now
        self.dropped += 1
        return False

    @property
    def is_flood(self) -> bool:
        return self.dropped > MAX_DROPPED


class ObservedTransport:
    """A transport with observed streams.

    Args:
        max_messages: Messages a second that answer no request.
        on_tools_changed: Called at once for a notice that is dropped.
    """

    def __init__(self, inner: Any, end: SessionEnd, *, max_messages: int, on_tools_changed: Callable[[], None]) -> None:
        self._inner = inner
        self._end = end
        self._rate = MessageRate(max_messages)
        self._on_tools_changed = on_tools_changed

    async def __aenter__(self) -> tuple[ObservedReadStream, ObservedWriteStream]:
        reads, writes = await self._inner.__aenter__()
        waiting: dict[str, types.RequestId] = {}
        reading = ObservedReadStream(reads, waiting, self._end, self._rate, self._on_tools_changed)
        return reading, ObservedWriteStream(writes, waiting)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return cast(bool | None, await self._inner.__aexit__(kind, error, trace))


class ObservedReadStream:
    """The read stream of a transport; marks the session as over when it ends or is flooded."""

    def __init__(
        self,
        inner: Any,
        waiting: dict[str, types.RequestId],
        end: SessionEnd,
        rate: MessageRate,
        on_tools_changed: Callable[[], None],
    ) -> None:
        self._inner = inner
        self._waiting = waiting
        self._end = end
        self._rate = rate
        self._on_tools_changed = on_tools_changed

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> ObservedReadStream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            try:
                item = cast("SessionMessage | Exception", await self._inner.__anext__())
            except (StopAsyncIteration, anyio.ClosedResourceError):
                self._end.end()
                raise
            answer = self._as_answer(item)
            if answer is not None:
                return answer
            if self._rate.take():
                return item
            if _is_tools_changed(item):
                self._on_tools_changed()
            if self._rate.is_flood:
                self._end.end(
                    f"it sent over {self._rate.limit} messages a second (max_messages), {MAX_DROPPED:,} of them in a "
                    "row, so its session was closed"
                )
                raise StopAsyncIteration

    def _as_answer(self, item: SessionMessage | Exception) -> SessionMessage | None:
        """Return the item if it answers a request that waits; an error for one that cannot be read."""
        if isinstance(item, UnreadableMessage):
            key = item.key if item.key is not None or not item.is_answer else self._only_key()
            request = self._waiting.pop(key, None) if key is not None else None
            return _error(request, f"its answer cannot be read: {item.reason}") if request is not None else None
        if isinstance(item, Exception):
            return None
        message = item.message
        if isinstance(message, types.JSONRPCError) and message.id is None:
            # A server that could not read the request gives no id.
            request = self._waiting.pop(self._only_key() or "", None)
            return SessionMessage(message.model_copy(update={"id": request})) if request is not None else None
        if isinstance(message, types.JSONRPCResponse):
            bound_parts(message.result)  # the SDK checks each part
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            return item if self._waiting.pop(to_key(message.id) or "", None) is not None else None
        return None

    def _only_key(self) -> str | None:
        return next(iter(self._waiting)) if len(self._waiting) == 1 else None

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> ObservedReadStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class ObservedWriteStream:
    """The write stream of a transport; records that a call's message was sent."""

    def __init__(self, inner: Any, waiting: dict[str, types.RequestId]) -> None:
        self._inner = inner
        self._waiting = waiting

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            key = to_key((message.params or {}).get("requestId"))
            self._waiting.pop(key or "", None)
            with anyio.move_on_after(CANCEL_WRITE_S):
                await self._inner.send(item)
            return
        if isinstance(message, types.JSONRPCRequest):
            self._waiting[str(message.id)] = message.id
        state = send_state.get()
        if state is not None:
            # A cancelled or interrupted write may have been delivered: only a closed stream proves it was not.
            state.begun = True
        try:
            await self._inner.send(item)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            if state is not None:
                state.begun = False
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> ObservedWriteStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _error(request: types.RequestId, text: str) -> SessionMessage:
    data = types.ErrorData(code=UNREADABLE, message=text)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request, error=data))


def _is_tools_changed(item: SessionMessage | Exception) -> bool:
    return (
        isinstance(item, SessionMessage)
        and isinstance(item.message, types.JSONRPCNotification)
        and item.message.method == _TOOLS_CHANGED
    )
