"""Format a tool call for people: `sell(item="ore", n=40)`."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

from zoea.text.control_characters import escape, one_line, reveal_exactly
from zoea.text.json_text import parse_object

MOST_CHARS = 400
VALUE_CHARS = 60
_LARGE = 100_000
_LOOKED_AT = 2_000
"""Characters of a key or a value that are looked at, because it takes 1 µs for each and a screen is drawn often."""
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_BLANK = re.compile(r"[\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]")


def format_call(name: str, arguments: str, *, hidden: str = "") -> str:
    """Return the call on one line, without arguments with the value `hidden`."""
    return f"{one_line(name)}({format_arguments(arguments, hidden=hidden)})"


def reveal_call(name: str, arguments: str) -> str:
    """Return the whole call with its arguments as JSON."""
    return f"{one_line(name)}({reveal_arguments(arguments)})"


def reveal_arguments(arguments: str) -> str:
    """Show everything hidden in a call's arguments as escapes, also unusual blanks.

    The result parses to the same value as the arguments.
    """
    if "\r" in arguments:  # between values, where JSON has no escapes
        with contextlib.suppress(ValueError, RecursionError):
            arguments = json.dumps(json.loads(arguments), ensure_ascii=False)
    return _BLANK.sub(lambda match: escape(match[0]), reveal_exactly(arguments))


def format_arguments(arguments: str, *, hidden: str = "") -> str:
    """Format JSON arguments as `item="ore", n=40`. Text that is not a JSON object stays as it is.

    Each value is JSON, and a key too that is no plain word, so that what is shown parses to what is sent. A value has
    at most 60 characters and the result 400, each cut with its whole length behind it.

    Args:
        hidden: Arguments with this value are omitted, such as those Zoea fills in.
    """
    values = parse_arguments(arguments)
    if values is None:
        return _cut(one_line(reveal_arguments(arguments[:_LOOKED_AT])), MOST_CHARS, len(arguments))
    joined = ""
    for key, value in values.items():
        if hidden and value == hidden:
            continue
        text = json.dumps(value, ensure_ascii=False)
        shown = _cut(reveal_arguments(text[:_LOOKED_AT]), VALUE_CHARS, len(text))
        name = key if len(key) <= _LOOKED_AT and _PLAIN_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)
        joined += f"{', ' if joined else ''}{reveal_arguments(name[:_LOOKED_AT])}={shown}"
        if len(joined) > MOST_CHARS:
            return _cut(joined, MOST_CHARS, len(arguments))
    return joined


def parse_arguments(arguments: str) -> dict[str, Any] | None:
    """Parse the arguments of a call. None if they are no JSON object, or too large for a screen."""
    return parse_object(arguments) if len(arguments) <= _LARGE else None


def _cut(shown: str, most: int, length: int) -> str:
    """Cut a text that is or begins a too long one, and name the length."""
    if len(shown) <= most and length <= _LOOKED_AT:
        return shown
    return f"{shown[:most]}… ({length:,} characters)"
