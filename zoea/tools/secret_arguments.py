"""Finds secrets in the arguments of calls: by the tool's schema, or by the argument's name. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_NAMES = re.compile(r"(?:^|_)(?:password|passwd|passphrase|secret|api_?key|token)$")
_HARMLESS = re.compile(r"(?:page|next|continuation)_token$")
_NUMBERS_TOO = re.compile(r"(?:password|passwd|passphrase|secret|api_?key)$")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_IN_TEXT = re.compile(r'("(?P<name>[^"\\]{1,64})"\s*:\s*")(?P<value>(?:[^"\\]|\\.)+)')
_BRANCHES = ("anyOf", "oneOf", "allOf")
_MAX_DEPTH = 32

Replace = Callable[[Any], str]
"""Returns what stands for a secret value."""


def is_secret_name(name: str) -> bool:
    """Return whether an argument of this name holds a secret: `password`, `userPassword`, `x-api-key`, `token`."""
    plain = plain_name(name)
    return _NAMES.search(plain) is not None and _HARMLESS.search(plain) is None


def is_secret_property(name: str, schema: Any) -> bool:
    """Return whether a property of a schema holds a secret."""
    return is_secret_name(name) or any(
        part.get("format") == "password" or part.get("writeOnly") is True for part in _parts(schema, schema)
    )


def replace_secrets(arguments: dict[str, Any], schema: Mapping[str, Any], replace: Replace) -> dict[str, Any]:
    """Return the arguments with each secret value replaced, at any depth."""
    replaced: dict[str, Any] = _walk(arguments, [schema], schema, replace, 0)
    return replaced


def replace_in_text(text: str, replace: Replace) -> str:
    """Replace the values of secret names in a text that is no valid JSON."""

    def put(match: re.Match[str]) -> str:
        if not is_secret_name(match["name"]):
            return match[0]
        return match[1] + replace(match["value"])

    return _IN_TEXT.sub(put, text)


def _walk(value: Any, schemas: list[Any], root: Any, replace: Replace, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return value
    parts = [part for schema in schemas for part in _parts(schema, root)]
    match value:
        case dict():
            return {key: _member(key, one, parts, root, replace, depth) for key, one in value.items()}
        case list():
            items = [part["items"] for part in parts if "items" in part]
            return [_walk(one, items, root, replace, depth + 1) for one in value]
    return value


def _member(key: str, value: Any, parts: list[Mapping[str, Any]], root: Any, replace: Replace, depth: int) -> Any:
    inner = [schema for part in parts if (schema := _property(part, key)) is not None]
    by_schema = any(
        part.get("format") == "password" or part.get("writeOnly") is True
        for schema in inner
        for part in _parts(schema, root)
    )
    if by_schema or is_secret_name(key):
        numbers = by_schema or _NUMBERS_TOO.search(plain_name(key)) is not None
        return _replace_leaves(value, replace, numbers=numbers, depth=depth)
    return _walk(value, inner, root, replace, depth + 1)


def _replace_leaves(value: Any, replace: Replace, *, numbers: bool, depth: int) -> Any:
    match value:
        case str() if value:
            return replace(value)
        case bool():
            return value
        case int() | float() if numbers:
            return replace(value)
        case dict() if depth <= _MAX_DEPTH:
            return {key: _replace_leaves(one, replace, numbers=numbers, depth=depth + 1) for key, one in value.items()}
        case list() if depth <= _MAX_DEPTH:
            return [_replace_leaves(one, replace, numbers=numbers, depth=depth + 1) for one in value]
    return value


def _property(schema: Mapping[str, Any], key: str) -> Any:
    properties = schema.get("properties")
    return properties.get(key) if isinstance(properties, Mapping) else None


def _parts(schema: Any, root: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and those it refers to or combines."""
    if not isinstance(schema, Mapping) or depth > 8:
        return
    yield schema
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        found: Any = root
        for step in reference[2:].split("/"):
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        yield from _parts(found, root, depth + 1)
    for branch in _BRANCHES:
        ones = schema.get(branch)
        for one in ones if isinstance(ones, list) else ():
            yield from _parts(one, root, depth + 1)


def plain_name(name: str) -> str:
    """Return a name in lower case with underscores: `userName` and `User-Name` are `user_name`."""
    return _CAMEL.sub("_", name).lower().replace("-", "_")
