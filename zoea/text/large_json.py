"""JSON of any size, read and written so that other threads run in between.

The C code of `json` and pydantic keeps the interpreter's lock from the first to the last byte, so a thread alone does
not keep the event loop free. A hook in Python lets other threads run after each object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

LARGE_CHARS = 256_000
LARGE_COUNT = 1_000
"""Texts and numbers of values above these belong in a thread."""

_ENCODER = json.JSONEncoder(ensure_ascii=False)


def parse_large(text: str | bytes, constant: Callable[[str], Any] | None = None) -> Any:
    """Parse a document in a thread. Raises ValueError and RecursionError as `json.loads`."""
    return json.loads(text, parse_constant=constant, object_pairs_hook=_to_dict)


def dump_large(value: Any) -> str:
    """Return a value as JSON, in a thread."""
    return "".join(_ENCODER.iterencode(value))


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


def _inside(value: dict[Any, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _to_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(pairs)
