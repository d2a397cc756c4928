"""What fits into an answer of Zoea's own tools, for a mysis and for a client of the MCP server alike. Pure.

Sizes are characters of JSON, where a quote or a newline counts two and a control
character six: only so counted is a bound on an answer one.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zoea.text.shorten import head

CALLS_ROOM = 2_000
"""For the list of an answer's calls, beside its text."""
_ARGUMENTS_ROOM = 500
_NAME_CHARS = 100
_TAGS, _TAG_CHARS = 20, 40


def size(value: Any) -> int:
    """How long it is as JSON."""
    return len(json.dumps(value, ensure_ascii=False, default=str))


def start_of(text: str, room: int) -> str:
    """The longest beginning of a text that takes at most so much, its two quotes included."""
    return text[: max(0, bisect_right(range(len(text) + 1), room, key=lambda end: size(text[:end])) - 1)]


def within(rows: Iterable[Mapping[str, Any]], room: int) -> list[dict[str, Any]]:
    """The first rows, as many as fit side by side."""
    kept: list[dict[str, Any]] = []
    for row in rows:
        room -= size(row) + 2
        if room < 0:
            break
        kept.append(dict(row))
    return kept


def call_rows(calls: Sequence[tuple[int, str, str, int]]) -> list[dict[str, Any]]:
    """The calls of an answer (position, name, the beginning of the arguments, how long they are): those that fit.

    `total_chars` is that of the whole call, as `part="call"` of `zoea_read_memory` shows it.
    """
    rows = (
        {
            "position": position,
            "name": called(name),
            "arguments": start_of(arguments, _ARGUMENTS_ROOM),
            "total_chars": len(name) + total + 2,
        }
        for position, name, arguments, total in calls
    )
    return within(rows, CALLS_ROOM)


def shown_tags(tags: Sequence[str]) -> list[str]:
    """The tags of a mysis as a list shows them."""
    return [head(tag, _TAG_CHARS) for tag in tags[:_TAGS]]


def called(name: str) -> str:
    """The name of a called tool, which a model may have made up at any length."""
    return head(name, _NAME_CHARS)
