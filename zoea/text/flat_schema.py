"""Flattens JSON schemas: references filled in, single choices merged, arrays bounded. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# A tool's schema is put inside another one to constrain answers. Its `#/$defs/…` would then be unresolved, and
# llama.cpp would refuse the whole request.

MAX_REFERENCES = 8
MAX_NESTING = 64
MAX_NODES = 5_000
MAX_ITEMS = 32
_UNSAID = frozenset({"$defs", "definitions", "$schema", "$id", "title"})
_HINTS = frozenset({"default", "examples"})
_NAMED = frozenset({"properties", "patternProperties"})
_CHOICES = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})


def flat(schema: Mapping[str, Any], *, with_hints: bool = False) -> dict[str, Any]:
    """Return the schema with references filled in, single `allOf` merged and arrays bounded.

    A schema that contains itself is cut off after 8 levels, a deep one after 64, a large one after 5,000 parts: any
    value is allowed there. `with_hints` keeps defaults and examples, which hold no answer to the schema.
    """
    made = _ReferenceResolver(schema, _UNSAID if with_hints else _UNSAID | _HINTS).flat(schema, 0, 0)
    return made if isinstance(made, dict) else {}


class _ReferenceResolver:
    """Flattens one schema; `depth` counts references, `nesting` the levels."""

    def __init__(self, root: Mapping[str, Any], unsaid: frozenset[str]) -> None:
        self._root = root
        self._unsaid = unsaid
        self._left = MAX_NODES

    def flat(self, node: Any, depth: int, nesting: int) -> Any:
        if not isinstance(node, (list, Mapping)):
            return node
        self._left -= 1
        if self._left < 0 or nesting > MAX_NESTING:
            return [] if isinstance(node, list) else {}
        if isinstance(node, list):
            return [self.flat(item, depth, nesting + 1) for item in node]
        reference = node.get("$ref")
        if isinstance(reference, str):
            if depth >= MAX_REFERENCES:
                return {}
            beside = {key: value for key, value in node.items() if key != "$ref"}
            return self.flat({**_target(reference, self._root), **beside}, depth + 1, nesting)
        every = node.get("allOf")
        if isinstance(every, list) and len(every) == 1 and isinstance(every[0], Mapping):
            beside = {key: value for key, value in node.items() if key != "allOf"}
            return self.flat({**every[0], **beside}, depth, nesting + 1)
        made = {
            key: self._inner(key, value, depth, nesting + 1) for key, value in node.items() if key not in self._unsaid
        }
        kinds = made.get("type")
        if kinds == "array" or (isinstance(kinds, list) and "array" in kinds) or (kinds is None and "items" in made):
            least = made.get("minItems")
            made.setdefault("maxItems", max(MAX_ITEMS, least) if isinstance(least, int) else MAX_ITEMS)
        return made

    def _inner(self, key: str, value: Any, depth: int, nesting: int) -> Any:
        if key in _NAMED and isinstance(value, Mapping):
            return {name: self._schema(inner, depth, nesting) for name, inner in value.items()}
        if key in _CHOICES and isinstance(value, list):
            return [self._schema(inner, depth, nesting) for inner in value]
        return self._schema(value, depth, nesting) if key == "items" else self.flat(value, depth, nesting)

    def _schema(self, node: Any, depth: int, nesting: int) -> Any:
        """Flatten an inner schema. `true` becomes an object, because llama.cpp refuses it."""
        return {} if node is True else self.flat(node, depth, nesting)


def _target(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    node: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        node = node if not name else node.get(name) if isinstance(node, Mapping) else None
    return node if isinstance(node, Mapping) else {}
