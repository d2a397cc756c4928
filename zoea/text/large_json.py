"""JSON of any size, read and written so that other threads run in between.

The C code of `json` and pydantic keeps the interpreter's lock from the first to the last byte, so a thread alone does
not keep the event loop free. A hook in Python lets other threads run after each object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from zoea.text.control_characters import clean, reveal_exactly

LARGE_CHARS = 256_000
LARGE_COUNT = 1_000
"""Texts and numbers of values above these belong in a thread."""
MAX_VALUES = 250_000
"""Values of a document that others wrote: of more, a list alone holds up all threads for over 50 ms."""
MAX_DEPTH = 100
"""The deepest nesting that is kept: deeper values could be read but not written again."""
MOST_INDENTED = 2_000_000
MOST_GROWTH = 10
"""The most characters, and times its length, that a document may take with its indentation."""
_SLICE = 262_144
_BACKSLASH = 0x5C

_ENCODER = json.JSONEncoder(ensure_ascii=False)
_INDENTING = json.JSONEncoder(ensure_ascii=False, indent=2)


def parse_large(text: str | bytes, constant: Callable[[str], Any] | None = None) -> Any:
    """Parse a document in a thread. Raises ValueError and RecursionError as `json.loads`."""
    return json.loads(text, parse_constant=constant, object_pairs_hook=_to_dict)


def has_too_many_values(data: bytes) -> bool:
    """Return whether a JSON document holds over `MAX_VALUES` values, without parsing it."""
    if _count_commas(data, 0, len(data)) < MAX_VALUES:
        return False
    count = at = 0
    while count < MAX_VALUES and at < len(data):
        quote = data.find(b'"', at)
        end = len(data) if quote < 0 else quote
        count += _count_commas(data, at, end)
        at = end if quote < 0 else _find_end_of_text(data, quote + 1)
    return count >= MAX_VALUES


def _count_commas(data: bytes, start: int, end: int) -> int:
    """Count as far as `MAX_VALUES`, in slices, so that other threads run in between."""
    count = 0
    while start < end and count < MAX_VALUES:
        count += data.count(b",", start, min(end, start + _SLICE))
        start += _SLICE
    return count


def _find_end_of_text(data: bytes, at: int) -> int:
    """Return the place after the quote that ends the text which begins here."""
    while (end := data.find(b'"', at)) >= 0:
        before = end
        while before > at and data[before - 1] == _BACKSLASH:
            before -= 1
        if (end - before) % 2 == 0:
            return end + 1
        at = end + 1
    return len(data)


def dump_large(value: Any) -> str:
    """Return a value as JSON, in a thread."""
    return "".join(_ENCODER.iterencode(value))


def indent(text: str) -> str:
    """Indent a document that others wrote. Return text that is no JSON, or would become far longer, unchanged.

    The values of deep lists alone would take a thousand times their length.
    """
    left = min(MOST_INDENTED, 1_000 + MOST_GROWTH * len(text))
    parts: list[str] = []
    try:
        for part in _INDENTING.iterencode(json.loads(text)):
            parts.append(part)
            left -= len(part)
            if left < 0:
                return text
    except (ValueError, RecursionError):
        return text
    return "".join(parts)


def dump_shown(value: Any, indent: int | None = None) -> str:
    """Return JSON that a terminal shows without harm: hidden characters are escapes.

    Lone surrogates are replaced, because UTF-8 cannot encode them.
    """
    return reveal_exactly(clean(json.dumps(value, ensure_ascii=False, indent=indent)))


def is_large(value: Any) -> bool:
    """Return whether a value holds over `LARGE_COUNT` values or `LARGE_CHARS` characters. Takes under 1 ms."""
    waiting, count, chars = [value], 0, 0
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            chars += len(one)
        elif isinstance(one, dict | list):
            count += len(one)
            if count <= LARGE_COUNT:
                waiting.extend(_inside(one))
        if count > LARGE_COUNT or chars > LARGE_CHARS:
            return True
    return False


def count_values(value: Any, limit: int) -> int:
    """Count the values inside a value, as far as just above a limit."""
    waiting, count = [value], 0
    while waiting and count <= limit:
        one = waiting.pop()
        if isinstance(one, dict | list):
            count += len(one)
            waiting.extend(_inside(one) if count <= limit else ())
    return count


def is_deep(value: Any) -> bool:
    """Return True if lists and objects are nested more than `MAX_DEPTH` deep."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [one for outer in level if isinstance(outer, dict | list) for one in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: dict[Any, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _to_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(pairs)
