"""Cutting what goes into a request: head and tail stay, a marker says how much is gone and where to read it.

The stored text is never touched; these are pure renderings of it.
"""

from __future__ import annotations

import json
from typing import Any

from zoea.text.shorten import middle

TRUNCATED = "\n\n[Context truncated to fit limit]\n"
"""What ends a text that a limit cut (planner.md, "Selection" 6c)."""

LEAST = 160
"""The least a cut keeps, so that there is a head and a tail beside the marker."""


def cut_text(text: str, keep: int, memory_id: int | None) -> str:
    """Head and tail of a text around the marker, together at most `keep` characters (never under LEAST)."""
    where = "" if memory_id is None else f"zoea_read_memory(id={memory_id}) shows them"
    return middle(text, max(keep, LEAST), where)


def cut_end(text: str, keep: int) -> str:
    """The first characters, ending in TRUNCATED where that fits; exactly `keep` characters of a longer text."""
    if len(text) <= keep:
        return text
    if keep >= len(TRUNCATED):
        return text[: keep - len(TRUNCATED)] + TRUNCATED
    return text[: max(keep, 0)]


def cut_arguments(arguments: str, keep: int, memory_id: int | None) -> str:
    """The JSON object with its long values cut, or with the one key `…` where that is not enough.

    What goes out is always a JSON object, and never longer than what came in where that was one.
    """
    if len(arguments) <= keep:
        return arguments
    values = _object(arguments)
    if values is None:
        return _whole(arguments, keep, memory_id)
    share = max(keep // max(len(values), 1), LEAST)
    short = _dump({key: _cut_value(value, share, memory_id) for key, value in values.items()})
    if short is None or len(short) > 2 * max(keep, share):
        short = _whole(arguments, keep, memory_id)
    return short if len(short) < len(arguments) else arguments


def _whole(arguments: str, keep: int, memory_id: int | None) -> str:
    return json.dumps({"…": cut_text(arguments, keep, memory_id)}, ensure_ascii=False)


def _object(text: str) -> dict[str, Any] | None:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _cut_value(value: Any, keep: int, memory_id: int | None) -> Any:
    if isinstance(value, str):
        return cut_text(value, keep, memory_id)
    if isinstance(value, (dict, list)):
        text = json.dumps(value, ensure_ascii=False)
        return cut_text(text, keep, memory_id) if len(text) > keep else value
    return value


def _dump(value: Any) -> str | None:
    """Compact JSON, or None for what JSON cannot say (infinities that a number overflowed to)."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return None
