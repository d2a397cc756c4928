"""Passes large answers around the SDK, which would parse them in the event loop."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct

from zoea.text.document_bounds import estimate_memory
from zoea.text.large_json import MAX_VALUES, has_too_many_values, parse_large
from zoea.tools.upstream.unreadable_answer import UnreadableMessage, find_key

_MARK = "zoea/large"
_PARTS = frozenset({"content", "structuredContent", "toolResult"})
"""What a result of a call holds; an object without any of them is none."""
MAX_MEMORY = 128 * 1024 * 1024
"""Bytes of memory that one message may take."""
MAX_KEPT_BYTES = 64 * 1024 * 1024
"""Bytes of the messages whose results are kept: a server may send answers that no request waits for."""
_KEPT_S = 60.0
"""A result that the SDK did not hand on within this time was dropped with its caller."""


class _HiddenResult(Struct, frozen=True, eq=False):
    wire: dict[str, Any]


class LargeAnswers:
    """Results of one session that were parsed before the SDK reads their messages."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[dict[str, Any], int]] = {}
        self._next = 0

    def keep(self, result: dict[str, Any], size: int) -> dict[str, Any]:
        """Keep a result of a message of `size` bytes for `take`. Return the small one that stands for it on the wire.

        The oldest ones are dropped above `MAX_KEPT_BYTES`.
        """
        self._next += 1
        self._kept[self._next] = (result, size)
        while sum(kept for _, kept in self._kept.values()) > MAX_KEPT_BYTES:
            del self._kept[next(iter(self._kept))]
        asyncio.get_running_loop().call_later(_KEPT_S, self._kept.pop, self._next, None)
        return {_MARK: self._next}

    def take(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result that a small one stands for; any other as it is."""
        number = result.get(_MARK)
        return self._kept.pop(number, (result, 0))[0] if isinstance(number, int) else result


def parse_large_message(data: bytes) -> Any:
    """Parse a message, in a thread. Raises UnreadableMessage above its bounds, ValueError, RecursionError."""
    if has_too_many_values(data):
        reason = f"it holds over {MAX_VALUES:,} values"
        raise UnreadableMessage(reason, key=find_key(data), is_answer=True)
    if estimate_memory(data) > MAX_MEMORY:
        reason = f"it would take over {MAX_MEMORY // 2**20} MiB of memory"
        raise UnreadableMessage(reason, key=find_key(data), is_answer=True)
    return parse_large(data)


def hide_result(result: dict[str, Any]) -> dict[str, Any]:
    """Return a call's result without content for the SDK, because one bad part loses all."""
    if _PARTS.isdisjoint(result):
        return result
    kind = result.get("resultType")
    return {"content": [], **({"resultType": kind} if isinstance(kind, str) else {}), _MARK: _HiddenResult(result)}


def reveal_result(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result that was hidden; any other as it is."""
    hidden = result.get(_MARK)
    return hidden.wire if isinstance(hidden, _HiddenResult) else result
