"""Format a tool call for people: `sell(item="ore", n=40)`."""

from __future__ import annotations

import json

from zoea.text.control_characters import one_line

MOST_CHARS = 400
VALUE_CHARS = 60
_LARGE = 100_000
_LOOKED_AT = 2_000
"""Characters of a key or a value that are looked at, because it takes 1 µs for each and a screen is drawn often."""


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
    joined = ""
    for key, value in given.items():
        if hidden and value == hidden:
            continue
        text = json.dumps(value, ensure_ascii=False)
        shown = one_line(text[:_LOOKED_AT])
        if len(shown) > VALUE_CHARS or len(text) > _LOOKED_AT:
            shown = shown[:VALUE_CHARS] + more
        joined += f"{', ' if joined else ''}{one_line(key[:_LOOKED_AT])}={shown}"
        if len(joined) > MOST_CHARS:
            return joined[:MOST_CHARS] + more
    return joined
