"""Checks answers over HTTP before the SDK, which gives each the id of its request.

An answer with the id of another request is replaced by an error, as is one that cannot be read. An error without
an id gets the id of the request.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from zoea.text.large_json import is_deep
from zoea.tools.upstream.large_answer import LargeAnswers, parse_large_message
from zoea.tools.upstream.session_traffic import SessionTraffic
from zoea.tools.upstream.unreadable_answer import (
    MISMATCHED,
    UNREADABLE,
    RequestKey,
    UnreadableMessage,
    describe_long_message,
    describe_message,
    repair_message,
    to_key,
)

LARGE_BYTES = 256 * 1024
"""Larger messages are parsed in a thread."""
MAX_EVENT_BYTES = 32 * 1024 * 1024
MAX_EVENT_LINES = 500_000
"""Lines of an event, each of which is some 60 bytes of memory besides its text."""
MAX_ERROR_CHARS = 10_000
"""Characters that are kept of the message of a large error."""
_EVENTS_AT_ONCE = 50
"""Events that are checked before the rest of the event loop has its turn."""
_END_OF_EVENT = re.compile(rb"(?:\r\n|\n|\r)(?:\r\n|\n|\r)")
_LONGEST_END = 4


class CheckedEvents(httpx2.AsyncByteStream):
    """A stream of server-sent events in whole events, checked to answer one request.

    Args:
        key: The request; None for a stream that answers none or any.
    """

    def __init__(
        self, inner: httpx2.AsyncByteStream, key: RequestKey | None, traffic: SessionTraffic, large: LargeAnswers
    ) -> None:
        self._inner = inner
        self._key = key
        self._traffic = traffic
        self._large = large

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces: list[bytes] = []
        size, tail = 0, b""
        async for piece in self._inner:
            pieces.append(piece)
            size += len(piece)
            if _END_OF_EVENT.search(tail + piece) is None:
                tail = (tail + piece)[-_LONGEST_END:]
                if size > MAX_EVENT_BYTES:
                    raise httpx2.ReadError(f"an event of over {MAX_EVENT_BYTES // 2**20} MiB")
                continue
            *events, rest = _split(b"".join(pieces), size - len(piece) - _LONGEST_END)
            pieces, size, tail = [rest], len(rest), rest[-_LONGEST_END:]
            for start in range(0, len(events), _EVENTS_AT_ONCE):
                yield b"".join([await self._checked(event) for event in events[start : start + _EVENTS_AT_ONCE]])
                await asyncio.sleep(0)
        if last := b"".join(pieces):
            yield await self._checked(last)

    async def _checked(self, event: bytes) -> bytes:
        """Check the event's message; events without one count for the rate of the session."""
        is_large = len(event) > LARGE_BYTES
        if is_large and event.count(b"\n") + event.count(b"\r") > MAX_EVENT_LINES:
            raise httpx2.ReadError(f"an event of over {MAX_EVENT_LINES:,} lines")
        lines, data = await asyncio.to_thread(_read_event, event) if is_large else _read_event(event)
        if not data.strip():
            if self._traffic.rate.take():
                return b"" if is_large else event
            if self._traffic.has_flooded():
                raise httpx2.ReadError(self._traffic.end.reason)
            return b""
        if len(data) <= LARGE_BYTES and self._key is None:
            return event
        checked = await check_any_answer(data, self._key, self._large)
        if checked is data:
            return event
        kept = [] if is_large else [line for line in lines if line and not line.startswith(b"data")]
        return b"\n".join([*kept, b"data: " + checked.replace(b"\n", b" "), b"", b""]) if checked else b""

    async def aclose(self) -> None:
        await self._inner.aclose()


async def check_any_answer(data: bytes, key: RequestKey | None, large: LargeAnswers) -> bytes:
    """Return the message, repaired if need be, or what replaces it. A large one is parsed in a thread.

    Returns nothing for a large message that is no answer.
    """
    if len(data) <= LARGE_BYTES:
        return check_answer(data, key) if key is not None else data
    message = await asyncio.to_thread(_read_large, data, key)
    if isinstance(message, bytes):
        return message
    return json.dumps(
        {"jsonrpc": "2.0", "id": message["id"], "result": large.keep(message["result"], len(data))}
    ).encode()


def _read_event(event: bytes) -> tuple[list[bytes], bytes]:
    """Return the lines of an event, and its message."""
    lines = event.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return lines, b"\n".join(line[6 if line[5:6] == b" " else 5 :] for line in lines if line.startswith(b"data:"))


def _read_large(data: bytes, key: RequestKey | None) -> dict[str, Any] | bytes:
    """Return an answer with a result as it was parsed. For any other message what replaces it."""
    try:
        message = parse_large_message(data)
    except UnreadableMessage as error:
        key = key or error.key
        return _error(key, UNREADABLE, f"its answer cannot be read: {error.reason}") if key else b""
    except (ValueError, RecursionError) as error:
        if key is None:
            return b""
        unreadable = describe_long_message(data, error)
        if unreadable is None:
            return check_answer(data, key)
        return _error(key, UNREADABLE, f"its answer cannot be read: {unreadable.reason}")
    if not isinstance(message, dict):
        return _error(key, UNREADABLE, "its answer cannot be read: it is not a JSON object") if key else b""
    if "method" in message:
        return b""
    answered, failure = to_key(message.get("id")), message.get("error")
    if answered is not None and answered == (key or answered) and isinstance(message.get("result"), dict):
        return message
    if isinstance(failure, dict) and _is_error(failure):
        message["error"] = {"code": failure["code"], "message": failure["message"][:MAX_ERROR_CHARS]}
        data = json.dumps(
            {"jsonrpc": message.get("jsonrpc"), "id": message.get("id"), "error": message["error"]}
        ).encode()
    return _checked_message(message, data, key) if key is not None else b""


def check_answer(data: bytes, key: RequestKey) -> bytes:
    """Return the message, repaired if need be, or the error that replaces it."""
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        repaired = repair_message(data)
        if repaired is None:
            return _error(key, UNREADABLE, f"its answer cannot be read: {describe_message(data).reason}")
        return check_answer(repaired, key)
    if not isinstance(message, dict):
        return _error(key, UNREADABLE, "its answer cannot be read: it is not a JSON object")
    if "method" in message:
        return data
    return _checked_message(message, data, key)


def _checked_message(message: dict[str, Any], data: bytes, key: RequestKey) -> bytes:
    answered = to_key(message.get("id"))
    if answered is not None and answered != key:
        return _error(key, MISMATCHED, "its answer has the id of another request")
    is_error = _is_error(message.get("error"))
    if answered is None and is_error:
        return _error(key, message["error"]["code"], message["error"]["message"])
    is_answer = message.get("jsonrpc") == "2.0" and (is_error or isinstance(message.get("result"), dict))
    if answered is None or not is_answer:
        reason = "it has no id" if answered is None else describe_message(data).reason
        return _error(key, UNREADABLE, f"its answer cannot be read: {reason}")
    return (repair_message(data) or data) if b"\\u" in data or is_deep(message) else data


def _is_error(error: Any) -> bool:
    return isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("message"), str)


def _split(data: bytes, searched: int) -> list[bytes]:
    """Split into events with their ends, and the rest. No event ends before `searched`."""
    parts, start = [], 0
    for end in _END_OF_EVENT.finditer(data, max(0, searched)):
        parts.append(data[start : end.end()])
        start = end.end()
    return [*parts, data[start:]]


def _error(key: RequestKey, code: int, text: str) -> bytes:
    answer = {"jsonrpc": "2.0", "id": int(key) if key.isdecimal() else key, "error": {"code": code, "message": text}}
    return json.dumps(answer).encode()
