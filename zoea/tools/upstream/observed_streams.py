"""The streams between a transport and the SDK, which observe and limit messages.

They note that a call's message was sent, answer for servers that answer with something unreadable, and drop
messages that no request waits for above the limit of the upstream.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self, cast

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from zoea.model.request import SendState
from zoea.text.large_json import LARGE_COUNT, count_values
from zoea.tools.results import bound_parts
from zoea.tools.upstream.large_answer import LargeAnswers, hide_result
from zoea.tools.upstream.listed_tools import MAX_LISTED_VALUES, repair_initialize, repair_tool_list
from zoea.tools.upstream.session_traffic import MAX_ID_CHARS, SessionTraffic
from zoea.tools.upstream.unreadable_answer import UNREADABLE, UnreadableMessage, to_key

CANCEL_WRITE_S = 0.5
"""Limit for sending a cancellation to a server that does not read."""
_TOOLS_CHANGED = "notifications/tools/list_changed"


send_state: ContextVar[SendState | None] = ContextVar("zoea_call_send_state", default=None)


class ObservedTransport:
    """A transport with observed streams.

    Args:
        large: Results that the transport parsed itself.
        on_tools_changed: Called at once for a notice that is dropped.
    """

    def __init__(
        self, inner: Any, traffic: SessionTraffic, large: LargeAnswers, *, on_tools_changed: Callable[[], None]
    ) -> None:
        self._inner = inner
        self._traffic = traffic
        self._large = large
        self._on_tools_changed = on_tools_changed

    async def __aenter__(self) -> tuple[ObservedReadStream, ObservedWriteStream]:
        reads, writes = await self._inner.__aenter__()
        waiting: dict[str, types.JSONRPCRequest] = {}
        reading = ObservedReadStream(reads, waiting, self._traffic, self._large, self._on_tools_changed)
        return reading, ObservedWriteStream(writes, waiting, self._traffic)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return cast(bool | None, await self._inner.__aexit__(kind, error, trace))


class ClosedOnExit:
    """A stream that its context closes, as the SDK uses streams."""

    async def aclose(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class ObservedReadStream(ClosedOnExit):
    """The read stream of a transport. Marks the session as over when it ends or is flooded."""

    def __init__(
        self,
        inner: Any,
        waiting: dict[str, types.JSONRPCRequest],
        traffic: SessionTraffic,
        large: LargeAnswers,
        on_tools_changed: Callable[[], None],
    ) -> None:
        self._inner = inner
        self._waiting = waiting
        self._traffic = traffic
        self._large = large
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
                self._traffic.end.end()
                raise
            answer = self._as_answer(item)
            if answer is not None:
                return answer
            if self._traffic.rate.take():
                if not (isinstance(item, SessionMessage) and isinstance(item.message, types.JSONRPCRequest)):
                    return item
                if len(str(item.message.id)) > MAX_ID_CHARS:
                    continue
                if not self._traffic.begin_request():
                    raise StopAsyncIteration
                # Zoea carries out no request of a server but a ping, so what else it holds is not kept.
                return SessionMessage(item.message.model_copy(update={"params": None}))
            if (
                isinstance(item, SessionMessage)
                and isinstance(item.message, types.JSONRPCNotification)
                and item.message.method == _TOOLS_CHANGED
            ):
                self._on_tools_changed()
            if self._traffic.has_flooded():
                raise StopAsyncIteration

    def _as_answer(self, item: SessionMessage | Exception) -> SessionMessage | None:
        """Return the item if it answers a request that waits. An error for one that cannot be read."""
        if isinstance(item, UnreadableMessage):
            key = item.key if item.key is not None or not item.is_answer else self._only_key()
            request = self._waiting.pop(key, None) if key is not None else None
            return _error(request.id, f"its answer cannot be read: {item.reason}") if request is not None else None
        if isinstance(item, Exception):
            return None
        message = item.message
        if isinstance(message, types.JSONRPCError) and message.id is None:
            # A server that could not read the request gives no id.
            request = self._waiting.pop(self._only_key() or "", None)
            return SessionMessage(message.model_copy(update={"id": request.id})) if request is not None else None
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            request = self._waiting.pop(to_key(message.id) or "", None)
            if request is not None and isinstance(message, types.JSONRPCResponse):
                return self._bounded(request, message, item)
            return item if request is not None else None
        return None

    def _bounded(
        self, request: types.JSONRPCRequest, message: types.JSONRPCResponse, item: SessionMessage
    ) -> SessionMessage:
        """Bound what the SDK checks value by value, and repair what it would refuse."""
        message.result = self._large.take(message.result)
        match request.method:
            case "tools/call":
                bound_parts(message.result)
                message.result = hide_result(message.result)
                return item
            case "tools/list":
                repair_tool_list(message.result)
            case "initialize":
                repair_initialize(message.result)
        if count_values(message.result, MAX_LISTED_VALUES + LARGE_COUNT) > MAX_LISTED_VALUES + LARGE_COUNT:
            return _error(request.id, f"its answer cannot be read: it holds over {MAX_LISTED_VALUES:,} values")
        return item

    def _only_key(self) -> str | None:
        return next(iter(self._waiting)) if len(self._waiting) == 1 else None

    async def aclose(self) -> None:
        await self._inner.aclose()


class ObservedWriteStream(ClosedOnExit):
    """The write stream of a transport; records that a call's message was sent."""

    def __init__(self, inner: Any, waiting: dict[str, types.JSONRPCRequest], traffic: SessionTraffic) -> None:
        self._inner = inner
        self._waiting = waiting
        self._traffic = traffic

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            key = to_key((message.params or {}).get("requestId"))
            self._waiting.pop(key or "", None)
            with anyio.move_on_after(CANCEL_WRITE_S):
                await self._inner.send(item)
            return
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            try:
                await self._inner.send(item)
            finally:
                self._traffic.end_request()
            return
        if isinstance(message, types.JSONRPCRequest):
            self._waiting[str(message.id)] = message
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


def _error(request: types.RequestId, text: str) -> SessionMessage:
    data = types.ErrorData(code=UNREADABLE, message=text)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request, error=data))
