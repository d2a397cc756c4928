"""JSON of any size, read and written so that other threads run in between.

The C code of `json` and pydantic keeps the interpreter's lock from the first to the last byte, so a thread alone does
not keep the event loop free. A hook in Python lets other threads run after each object.

`parse_bounded` is for files that others wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from zoea.text.control_characters import clean, reveal_exactly
from zoea.text.document_bounds import check_memory, count_marks, estimate_memory

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

_NESTED = (dict, list)
_ENCODER = json.JSONEncoder(ensure_ascii=False)
_INDENTING = json.JSONEncoder(ensure_ascii=False, indent=2)


def _to_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(pairs)


LARGE_DECODER = json.JSONDecoder(object_pairs_hook=_to_dict)
"""Lets other threads run after each object."""


def parse_large(text: str | bytes, constant: Callable[[str], Any] | None = None) -> Any:
    """Parse a document in a thread. Raises ValueError and RecursionError as `json.loads`."""
    return json.loads(text, parse_constant=constant, object_pairs_hook=_to_dict)


def parse_bounded(data: bytes) -> Any:
    """Parse a document that others wrote, unless it would take too much memory.

    Raises:
        ValueError: It is no JSON, is nested too deeply, or would take more than `MOST_MEMORY`.
    """
    check_memory(estimate_memory(data))
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def has_too_many_values(data: bytes) -> bool:
    """Return whether a JSON document holds over `MAX_VALUES` values, without parsing it."""
    return any(count_marks(data, marks, MAX_VALUES) >= MAX_VALUES for marks in ((b",",), (b"[", b"{")))


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
    level = [value] if isinstance(value, _NESTED) else []
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        level = [
            one
            for outer in level
            for one in (outer.values() if isinstance(outer, dict) else outer)
            if one and isinstance(one, _NESTED)  # what is empty has no level below, and may be all there is
        ]
    return any(level)


def _inside(value: dict[Any, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value
