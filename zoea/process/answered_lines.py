"""Answers lines over stdio that are no message of JSON-RPC with an error.

The SDK passes such a line to its server as an exception, which drops it. A request with an id of another type, such
as 1.5 or null, it takes for a notification, and drops its id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import anyio
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCNotification
from pydantic import ValidationError

from zoea.text.json_text import parse_json
from zoea.text.message_ids import find_id

_log = logging.getLogger(__name__)
_NOTIFICATION = "notifications/"
"""How the method of each notification of MCP begins."""
NO_ID = "a request needs an id that is a text or a whole number"


class AnsweredLines:
    """The read stream of an MCP server over stdio.

    Args:
        streams: The read and write stream of the SDK's transport.
        wrap: Makes a message of the SDK, which this layer does not import.
    """

    def __init__(self, streams: tuple[Any, Any], wrap: Callable[[JSONRPCError], Any]) -> None:
        self._reads, self._writes = streams
        self._wrap = wrap
        self._is_told = False

    @property
    def last_context(self) -> Any:
        return self._reads.last_context

    async def receive(self) -> Any:
        """Return the next message. Raises EndOfStream."""
        while isinstance(item := await self._reads.receive(), Exception) or _is_request_without_id(item.message):
            refusal = describe_line(item) if isinstance(item, Exception) else _refuse(INVALID_REQUEST, NO_ID, None)
            if refusal is None:
                continue
            if not self._is_told:
                self._is_told = True
                _log.warning(
                    "the client sent a line that is no message: %s; others are not told", refusal.error.message
                )
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await self._writes.send(self._wrap(refusal))
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._reads.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _is_request_without_id(message: Any) -> bool:
    return isinstance(message, JSONRPCNotification) and not message.method.startswith(_NOTIFICATION)


def describe_line(error: Exception) -> JSONRPCError | None:
    """Return the answer to a line that is no message. None for an empty line, and for a response."""
    parts = error.errors(include_url=False) if isinstance(error, ValidationError) else []
    if not parts or parts[0]["type"] == "json_invalid":
        line = str(parts[0]["input"]) if parts else ""
        reason = parts[0]["msg"].removeprefix("Invalid JSON: ") if parts else type(error).__name__
        return (
            None if parts and not line.strip() else _refuse(PARSE_ERROR, f"this is no JSON: {reason}", _find_id(line))
        )
    whole = next((one["input"] for one in parts if len(one["loc"]) == 1 or one["type"] == "missing"), None)
    if not isinstance(whole, dict):
        return _refuse(INVALID_REQUEST, "this is no message of JSON-RPC, but another value", None)
    if "method" not in whole and ("result" in whole or "error" in whole):
        return None  # an error as the answer to a response would be taken for the response to a request
    number = whole.get("id")
    return _refuse(INVALID_REQUEST, "this is no message of JSON-RPC", number if _is_id(number) else None)


def _refuse(code: int, why: str, number: int | str | None) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=why))


def _find_id(line: str) -> int | str | None:
    """Return a JSON request's id, else the one at an end of the line."""
    whole = parse_json(line)
    if whole is None:
        return find_id(line.encode("utf-8", "replace"))
    number = whole.get("id") if isinstance(whole, dict) else None
    return number if _is_id(number) else None


def _is_id(value: Any) -> bool:
    """Return whether a value is an id that can be written again: a number, or a text without half characters."""
    if isinstance(value, str):
        return not any("\ud800" <= char <= "\udfff" for char in value)
    return isinstance(value, int) and not isinstance(value, bool)
