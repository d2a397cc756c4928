"""JSON of any size, read and written so that other threads run in between.

The C code of `json` and pydantic keeps the interpreter's lock from the first to the last byte, so a thread alone does
not keep the event loop free. A hook in Python lets other threads run after each object.

`parse_bounded` is for files that others wrote: it estimates the memory that a document takes before it parses it.
"""

from __future__ import annotations

import json
import re
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
MOST_MEMORY = 256 * 1024 * 1024
"""Bytes of memory that a document which others wrote may take."""
_VALUE_BYTES = 128
"""Bytes of a value besides its text, about; the smallest object has twice as many, and counts twice."""
_FEW = 10_000
_FOUR_BYTES = re.compile(rb"[\xf0-\xf7]|\\u[dD][89abAB]")
_TWO_BYTES = re.compile(rb"[\xc4-\xef]|\\u")
_SLICE = 262_144
_BACKSLASH = 0x5C

_ENCODER = json.JSONEncoder(ensure_ascii=False)
_INDENTING = json.JSONEncoder(ensure_ascii=False, indent=2)


def parse_large(text: str | bytes, constant: Callable[[str], Any] | None = None) -> Any:
    """Parse a document in a thread. Raises ValueError and RecursionError as `json.loads`."""
    return json.loads(text, parse_constant=constant, object_pairs_hook=_to_dict)


def parse_bounded(data: bytes, constant: Callable[[str], Any] | None = None) -> Any:
    """Parse a document that others wrote, unless it would take too much memory.

    Raises:
        ValueError: It is no JSON, is nested too deeply, or would take more than `MOST_MEMORY`.
    """
    check_memory(estimate_memory(data))
    try:
        return json.loads(data, parse_constant=constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_memory(size: int) -> None:
    """Refuse what would take more than `MOST_MEMORY`. Raises ValueError."""
    if size > MOST_MEMORY:
        mebibyte = 1024 * 1024
        raise ValueError(
            f"it would take over {size // mebibyte:,} MiB of memory; at most {MOST_MEMORY // mebibyte} MiB are read"
        )


def estimate_memory(data: bytes) -> int:
    """Return about how many bytes of memory a JSON document takes, without parsing it.

    Stops to count behind `MOST_MEMORY`. The text counts twice: as the document, and in its values.
    """
    width = 4 if _FOUR_BYTES.search(data) else 2 if _TWO_BYTES.search(data) else 1
    text = 2 * width * len(data)
    most = max(0, MOST_MEMORY - text) // _VALUE_BYTES + 1
    # Each name with its value, and each pair of texts in a list, needs a mark: half as many as there are texts.
    least = (data.count(b'"') - data.count(b'\\"')) // 4
    if least >= most:
        return text + _VALUE_BYTES * least
    # Commas in texts count too where there are few, because looking for the texts takes longer.
    count = sum(data.count(mark) for mark in (b",", b"[", b"{"))
    if count > _FEW:
        count = _count_outside_texts(data, (b",", b"[", b"{"), most)
    return text + _VALUE_BYTES * count


def has_too_many_values(data: bytes) -> bool:
    """Return whether a JSON document holds over `MAX_VALUES` values, without parsing it."""
    if _count_marks(data, (b",",), MAX_VALUES, 0, len(data)) < MAX_VALUES:
        return False
    return _count_outside_texts(data, (b",",), MAX_VALUES) >= MAX_VALUES


def _count_outside_texts(data: bytes, marks: tuple[bytes, ...], most: int) -> int:
    """Count marks outside of texts, as far as `most`."""
    count = at = 0
    while count < most and at < len(data):
        quote = data.find(b'"', at)
        end = len(data) if quote < 0 else quote
        count += _count_marks(data, marks, most, at, end)
        at = end if quote < 0 else _find_end_of_text(data, quote + 1)
    return count


def _count_marks(data: bytes, marks: tuple[bytes, ...], most: int, start: int, end: int) -> int:
    """Count as far as `most`, in slices, so that other threads run in between."""
    count = 0
    while start < end and count < most:
        until = min(end, start + _SLICE)
        count += sum(data.count(mark, start, until) for mark in marks)
        start = until
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
