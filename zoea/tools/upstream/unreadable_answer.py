"""JSON-RPC messages that cannot be read, and the request that they answer. Imports nothing of the SDK.

A server that answers with broken JSON, or with an object that is no answer, would otherwise leave its caller
waiting for the whole deadline.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from zoea.text.large_json import MAX_DEPTH, is_deep
from zoea.text.message_ids import find_id

UNREADABLE: Final = -32095
"""Code of the error that replaces an answer that cannot be read."""
MISMATCHED: Final = -32094
"""Code of the error that replaces an answer with the id of another request."""

_CUT = re.compile(rb'"(?:tools|content)"\s*:\s*\[|"error"\s*:\s*\{')
_MARKS = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)

_RESULT_DEPTH = 190
"""Levels of a result that the SDK reads for certain."""
_LEFT_OUT = b'"[nested over %d levels deep: left out]"' % _RESULT_DEPTH

RequestKey = str
"""An id of a request as text: servers may answer 7 with "7"."""

MAX_REPAIRED_BYTES = 8 * 1024 * 1024
"""The longest message that is repaired: its text is in memory in four forms at once."""


class UnreadableMessage(Exception):
    """A message that is not JSON-RPC.

    Attributes:
        key: The request that it answers; None if it names none.
        is_answer: It looks like an answer: it has a result or an error.
    """

    def __init__(self, reason: str, *, key: RequestKey | None, is_answer: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.key = key
        self.is_answer = is_answer


def describe_message(data: bytes) -> UnreadableMessage:
    """Say why a message cannot be read, and which request it answers."""
    try:
        message = json.loads(data)
    except RecursionError:
        return UnreadableMessage("it is nested too deeply", key=find_key(data), is_answer=True)
    except ValueError as error:
        is_answer = b'"jsonrpc"' in data and (b'"result"' in data or b'"error"' in data)
        return UnreadableMessage(f"it is not JSON: {error}", key=find_key(data), is_answer=is_answer)
    if not isinstance(message, dict):
        return UnreadableMessage("it is not a JSON object", key=None, is_answer=False)
    key = to_key(message.get("id")) if "method" not in message else None
    is_answer = "method" not in message and ("result" in message or "error" in message)
    return UnreadableMessage(_missing_part(message), key=key, is_answer=is_answer)


def describe_long_message(data: bytes, error: Exception) -> UnreadableMessage | None:
    """Say why a message that is too long to be repaired could not be parsed. None for one that is not."""
    if len(data) <= MAX_REPAIRED_BYTES:
        return None
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else f"it is not JSON: {error}"
    return UnreadableMessage(reason, key=find_key(data), is_answer=True)


def repair_message(data: bytes) -> bytes | None:
    """Replace bytes and escapes that are no characters. None if it is too long, or not JSON otherwise.

    In a list of tools, parts nested too deeply become null, because one schema must not lose the others; so do
    they in an error, of which only code and message are read. In a result a note takes their place.
    """
    if len(data) > MAX_REPAIRED_BYTES:
        return None
    if _CUT.search(data) is not None:
        data = _cut_message(data)
    try:
        message = json.loads(data.decode("utf-8", "replace"))
        return json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return None


def _cut_message(data: bytes) -> bytes:
    """Cut a list of tools, an error or a result of a call. Any other message stays."""
    cut = _cut_deep(data, MAX_DEPTH, b"null")
    try:
        message = json.loads(cut.decode("utf-8", "replace"))
        part = message["error"]["message"] if "error" in message else message["result"].get("tools")
        if isinstance(part, str | list):
            return cut
        is_result = isinstance(message["result"]["content"], list)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return data
    return _cut_deep(data, _RESULT_DEPTH, _LEFT_OUT) if is_result else data


def _cut_deep(data: bytes, most: int, note: bytes) -> bytes:
    """Replace parts nested more than `most` deep, without parsing."""
    parts: list[bytes] = []
    start, depth = 0, 0
    for mark in _MARKS.finditer(data):
        if mark[0] in (b"[", b"{"):
            depth += 1
            if depth == most + 1:
                parts.append(data[start : mark.start()])
        elif mark[0] in (b"]", b"}"):
            if depth == most + 1:
                parts.append(note)
                start = mark.end()
            depth -= 1
    return b"".join([*parts, data[start:]]) if depth == 0 else data


def find_key(data: bytes) -> RequestKey | None:
    """Find the id at the begin or the end of a message without parsing it. None if it is elsewhere."""
    return to_key(find_id(data))


def to_key(value: Any) -> RequestKey | None:
    """Return an id as text; None if it is no id."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    return None


def _missing_part(found: dict[str, Any]) -> str:
    if "method" in found:
        return "it is not a valid request or notification"
    if found.get("jsonrpc") != "2.0":
        return 'it has no "jsonrpc": "2.0"'
    if is_deep(found):
        return "it is nested too deeply"
    if "error" in found:
        return "its error is not an object with a code and a message"
    if "result" not in found:
        return "it has neither a result nor an error"
    if not isinstance(found["result"], dict):
        return "its result is not an object"
    return "it is not a JSON-RPC message"
