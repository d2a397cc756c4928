"""Reads JSON of servers without trust in its shape.

Any value may stand where a vendor's documentation names another. A value of the wrong type counts as not sent, so that
one odd field never costs the answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from zoea.text.large_json import LARGE_CHARS, MAX_DEPTH, MAX_VALUES, has_too_many_values, is_deep, parse_large

TOO_DEEP = "it is nested too deeply"


_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])

MAX_NAME = 256
"""The longest tool name that is kept, because it goes back whole with every request of the turn."""


def parse(text: str | bytes, *, constant: Callable[[str], Any] | None = None) -> Any:
    """Read a JSON document. Raises ValueError, also if it is nested too deeply or holds over `MAX_VALUES` values.

    `constant` is called for NaN and the infinities, as `parse_constant` of `json.loads`.
    """
    try:
        if len(text) > LARGE_CHARS:
            _check_count(text)
            value = parse_large(text, constant)
        else:
            value = _parse_small(text, constant)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    if len(text) <= MAX_DEPTH:
        return value
    openings = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    if openings > MAX_DEPTH and is_deep(value):
        raise ValueError(TOO_DEEP)
    return value


def split_object(text: bytes) -> dict[str, bytes]:
    """Return the values of a JSON object as written, the last of each name. Raises ValueError."""
    try:
        _check_count(text)
        return {name: bytes(part) for name, part in _PARTS.decode(text).items()}
    except (UnicodeError, msgspec.DecodeError, RecursionError):
        # The standard library reads more: other encodings, NaN, halves of characters.
        value = parse(text)
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return {name: json.dumps(one).encode() for name, one in value.items()}


def parse_part(text: bytes) -> tuple[Any, bytes]:
    """Parse a value of `split_object`. Return it, and its text without keys that stand twice in one object.

    Of two, some servers take the first. Raises ValueError.
    """
    value = parse(text)
    if text.startswith((b"{", b"[")) and (once := _write_once(value)) != text:
        # A key that stands twice has quotes that are missing then; a quote in a text has its own, or this form.
        is_misleading = b"\\" in text and b"\\u0022" in text
        if is_misleading or text.count(b'"') != once.count(b'"'):
            return value, json.dumps(value).encode()
    return value, text


def _write_once(value: Any) -> bytes:
    """Write a value for its quotes to be counted. What msgspec writes costs a tenth."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeError, OverflowError):
        return json.dumps(value).encode()


def _check_count(text: str | bytes) -> None:
    """Raise ValueError for a document that holds over `MAX_VALUES` values."""
    if len(text) > LARGE_CHARS and _may_hold_many(text) and has_too_many_values(_encode(text)):
        raise ValueError(f"it holds over {MAX_VALUES:,} values")


def _may_hold_many(text: str | bytes) -> bool:
    """Return whether a document has so many signs that its values must be counted."""
    data = _encode(text)
    return data.count(b",") >= MAX_VALUES or data.count(b"[") + data.count(b"{") >= MAX_VALUES


def _encode(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "replace")


def _parse_small(text: str | bytes, constant: Callable[[str], Any] | None) -> Any:
    """Read a document as `json.loads` does. What msgspec reads is the same, and costs a fifth."""
    try:  # a context manager would cost as much as a short document
        return msgspec.json.decode(text)
    except (UnicodeError, msgspec.DecodeError):  # also for NaN and the infinities
        pass
    return json.loads(text, parse_constant=constant)


def as_mapping(value: Any) -> dict[str, Any]:
    """Return the object, or an empty one."""
    return value if isinstance(value, dict) else {}


def as_mappings(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; none if it is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def as_text_value(value: Any) -> str:
    """Return the text, or an empty one."""
    return value if isinstance(value, str) else ""


def as_tool_name(value: Any) -> str:
    """Return the name of a called tool, cut at `MAX_NAME` because models may invent any."""
    return as_text_value(value)[:MAX_NAME]
