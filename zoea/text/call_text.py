"""Format a tool call for people: `sell(item="ore", n=40)`."""

from __future__ import annotations

import json

from zoea.text.control_characters import one_line

MOST_CHARS = 400
VALUE_CHARS = 60
_LARGE = 100_000


def format_call(name: str, arguments: str, *, hidden: str = "") -> str:
    """Return the call on one line, without arguments with the value `hidden`."""
    return f"{one_line(name)}({format_arguments(arguments, hidden=hidden)})"


def format_arguments(arguments: str, *, hidden: str = "", more: str = "…") -> str:
    """Format JSON arguments as `item="ore", n=40`. Text that is not a JSON object stays as it is.

    The result has at most 400 characters, 60 per value.

    Args:
        hidden: Arguments with this value are omitted, such as those Zoea fills in.
        more: Marks a cut.
    """
    if len(arguments) > _LARGE:
        return one_line(arguments[:MOST_CHARS]) + more
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return one_line(arguments[:MOST_CHARS])
    if not isinstance(given, dict):
        return one_line(arguments[:MOST_CHARS])
    parts: list[str] = []
    for key, value in given.items():
        if hidden and value == hidden:
            continue
        shown = one_line(json.dumps(value, ensure_ascii=False))
        if len(shown) > VALUE_CHARS:
            shown = shown[:VALUE_CHARS] + more
        parts.append(f"{one_line(key)}={shown}")
    joined = ", ".join(parts)
    return joined if len(joined) <= MOST_CHARS else joined[:MOST_CHARS] + more
