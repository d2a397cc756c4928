"""Answers over HTTP are checked before the SDK: it gives every answer of a response the id of its request.

An answer with the id of another request is replaced by an error, as is one that cannot be read. An error without
an id gets the id of the request.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from zoea.tools.upstream.unreadable_answer import (
    MISMATCHED,
    UNREADABLE,
    RequestKey,
    describe_message,
    find_key,
    repair_message,
    to_key,
)

LARGE_BYTES = 256 * 1024
"""Of larger messages only the begin and the end are looked at, because parsing them holds up the loop."""
_END_OF_EVENT = re.compile(rb"(?:\r\n|\n|\r)(?:\r\n|\n|\r)")
_LINE = re.compile(rb"\r\n|\n|\r")
_LONGEST_END = 4


class CheckedEvents(httpx2.AsyncByteStream):
    """A stream of server-sent events that answers one request, in whole events."""

    def __init__(self, inner: httpx2.AsyncByteStream, key: RequestKey) -> None:
        self._inner = inner
        self._key = key

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces: list[bytes] = []
        tail = b""
        async for piece in self._inner:
            pieces.append(piece)
            if _END_OF_EVENT.search(tail + piece) is None:
                tail = (tail + piece)[-_LONGEST_END:]
                continue
            *events, rest = _split(b"".join(pieces))
            pieces, tail = [rest], rest[-_LONGEST_END:]
            yield b"".join(_checked_event(event, self._key) for event in events)
        if last := b"".join(pieces):
            yield _checked_event(last, self._key)

    async def aclose(self) -> None:
        await self._inner.aclose()


def check_answer(data: bytes, key: RequestKey) -> bytes:
    """Return the message, repaired if need be, or the error that replaces it."""
    found = find_key(data)
    if found == key and len(data) > LARGE_BYTES:
        return data
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
    given = to_key(message.get("id"))
    if given is not None and given != key:
        return _error(key, MISMATCHED, "its answer has the id of another request")
    is_error = _is_error(message.get("error"))
    if given is None and is_error:
        return _error(key, message["error"]["code"], message["error"]["message"])
    is_answer = message.get("jsonrpc") == "2.0" and (is_error or isinstance(message.get("result"), dict))
    if given is None or not is_answer:
        reason = "it has no id" if given is None else describe_message(data).reason
        return _error(key, UNREADABLE, f"its answer cannot be read: {reason}")
    return (repair_message(data) or data) if b"\\u" in data else data


def _is_error(error: Any) -> bool:
    return isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("message"), str)


def _split(data: bytes) -> list[bytes]:
    """Split into events with their ends, and the rest."""
    found, start = [], 0
    for end in _END_OF_EVENT.finditer(data):
        found.append(data[start : end.end()])
        start = end.end()
    return [*found, data[start:]]


def _checked_event(event: bytes, key: RequestKey) -> bytes:
    """Check the event's message; other events and comments pass."""
    if b"data" not in event:
        return event
    lines = _LINE.split(event)
    data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
    if not data.strip():
        return event
    checked = check_answer(data, key)
    if checked is data:
        return event
    kept = [line for line in lines if line and not line.startswith(b"data")]
    return b"\n".join([*kept, b"data: " + checked.replace(b"\n", b" "), b"", b""])


def _error(key: RequestKey, code: int, text: str) -> bytes:
    answer = {"jsonrpc": "2.0", "id": int(key) if key.isdecimal() else key, "error": {"code": code, "message": text}}
    return json.dumps(answer).encode()
