"""Tool schemas as a grammar can take them: no references, no list without an end.

A tool's schema is put *inside* another one where answers are constrained, and its
`#/$defs/…` then point nowhere: llama.cpp refuses the whole request. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 8
MAX_ITEMS = 32
_UNSAID = frozenset({"$defs", "definitions", "$schema", "$id", "title", "default", "examples"})
_NAMED = frozenset({"properties", "patternProperties"})
_CHOICES = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})


def flat(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with its references filled in, single `allOf` undone and arrays bounded.

    What contains itself is cut off after eight levels: there any value will do.
    """
    made = _flat(schema, schema, 0)
    return made if isinstance(made, dict) else {}


def _flat(node: Any, root: Mapping[str, Any], depth: int) -> Any:
    if isinstance(node, list):
        return [_flat(item, root, depth) for item in node]
    if not isinstance(node, Mapping):
        return node
    reference = node.get("$ref")
    if isinstance(reference, str):
        if depth >= MAX_DEPTH:
            return {}
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _flat({**_target(reference, root), **beside}, root, depth + 1)
    every = node.get("allOf")
    if isinstance(every, list) and len(every) == 1 and isinstance(every[0], Mapping):
        return _flat({**every[0], **{key: value for key, value in node.items() if key != "allOf"}}, root, depth)
    made = {key: _inner(key, value, root, depth) for key, value in node.items() if key not in _UNSAID}
    if made.get("type") == "array":
        least = made.get("minItems")
        made.setdefault("maxItems", max(MAX_ITEMS, least) if isinstance(least, int) else MAX_ITEMS)
    return made


def _inner(key: str, value: Any, root: Mapping[str, Any], depth: int) -> Any:
    if key in _NAMED and isinstance(value, Mapping):
        return {name: _schema(inner, root, depth) for name, inner in value.items()}
    if key in _CHOICES and isinstance(value, list):
        return [_schema(inner, root, depth) for inner in value]
    return _schema(value, root, depth) if key == "items" else _flat(value, root, depth)


def _schema(node: Any, root: Mapping[str, Any], depth: int) -> Any:
    """A schema inside another; where anything goes it is an object, as llama.cpp refuses `true`."""
    return {} if node is True else _flat(node, root, depth)


def _target(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        found = found if not name else found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
