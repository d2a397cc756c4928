"""Digests of calls and results, so that repetition is a comparison of bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Any

from zoea.text.json_text import parse_json

LARGEST_PARSED = 64_000  # characters; parsing a longer text would take milliseconds, so it is compared as text

_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True)


def of_call(name: str, arguments: str) -> bytes:
    """Digest name and canonical arguments to 16 bytes; key order and spacing do not matter."""
    return _digest(f"{name}\0{_canonical(arguments)}")


def of_result(content: str, volatile: tuple[str, ...]) -> bytes:
    """Digest a result without its volatile fields, at any depth, to 16 bytes."""
    if len(content) > LARGEST_PARSED:
        return _digest(content)
    value = parsed(content)
    if value is None:
        return _digest(content)
    try:
        return _digest(_ENCODER.encode(_without(value, volatile)))
    except RecursionError:
        return _digest(content)  # nested too deep to parse: compared as text


def parsed(content: str) -> Any:
    """Parse a JSON object or array; None for anything else."""
    return parse_json(content) if content.startswith(("{", "[")) else None


def _canonical(arguments: str) -> str:
    if len(arguments) > LARGEST_PARSED:
        return arguments
    try:
        return _ENCODER.encode(json.loads(arguments))
    except (ValueError, RecursionError):
        return arguments


def _without(value: Any, volatile: tuple[str, ...]) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _without(inner, volatile)
            for key, inner in value.items()
            if not any(fnmatchcase(key, pattern) for pattern in volatile)
        }
    if isinstance(value, list):
        return [_without(inner, volatile) for inner in value]
    return value


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
