"""Bounds on the answers of Zoea's own tools, in characters of JSON. Pure.

A quote or a newline counts two there and a control character six, so only JSON can be bounded.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zoea.store.memory_reader import CallExcerpt
from zoea.text.shorten import head

MAX_ANSWER = 12_000
"""Characters of one answer."""
ROOM = MAX_ANSWER - 600
"""Of them those for rows or a text; the others are for the fields beside."""
_CALLS_ROOM = 2_000
_ARGUMENTS_ROOM = 500
_NAME_CHARS = 100
_TAGS, _TAG_CHARS = 20, 40


def size(value: Any) -> int:
    """Count the characters of a value as JSON."""
    return len(json.dumps(value, ensure_ascii=False, default=str))


def start_of(text: str, room: int) -> str:
    """Return the longest beginning of a text that takes at most `room`, with quotes."""
    return text[: max(0, bisect_right(range(len(text) + 1), room, key=lambda end: size(text[:end])) - 1)]


def within(rows: Iterable[Mapping[str, Any]], room: int) -> list[dict[str, Any]]:
    """Return the first rows, as many as fit together."""
    kept: list[dict[str, Any]] = []
    for row in rows:
        room -= size(row) + 2
        if room < 0:
            break
        kept.append(dict(row))
    return kept


def call_rows(calls: Iterable[CallExcerpt]) -> list[dict[str, Any]]:
    """Make rows of the calls of an answer, as many as fit.

    `total_chars` counts the whole call, as `part="call"` of `zoea_read_memory` shows it.
    """
    rows = (
        {
            "position": call.position,
            "name": shorten_name(call.name),
            "arguments": start_of(call.arguments, _ARGUMENTS_ROOM),
            "total_chars": len(call.name) + call.arguments_chars + 2,
        }
        for call in calls
    )
    return within(rows, _CALLS_ROOM)


def shorten_tags(tags: Sequence[str]) -> list[str]:
    """Return the tags of a mysis as lists show them."""
    return [head(tag, _TAG_CHARS) for tag in tags[:_TAGS]]


def shorten_name(name: str) -> str:
    """Shorten the name of a called tool. A model may make up one of any length."""
    return head(name, _NAME_CHARS)
