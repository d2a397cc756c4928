"""Nested tables before they are settings: put, cut, merged, each key with its origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from zoea.settings.origin import KeyPath, Layer, Origin


@dataclass(frozen=True, slots=True)
class Source:
    """What one layer says, and where it says it."""

    layer: Layer
    tree: Mapping[str, Any] = field(default_factory=dict, repr=False)
    origins: Mapping[KeyPath, Origin] = field(default_factory=dict)


def put(tree: dict[str, Any], path: KeyPath, value: Any) -> None:
    """Set a value, making the tables on the way; what is no table there gives way."""
    node = tree
    for part in path[:-1]:
        inner = node.get(part)
        if not isinstance(inner, dict):
            inner = node[part] = {}
        node = inner
    node[path[-1]] = value


def look(tree: Mapping[str, Any], path: KeyPath) -> Any:
    """The value at a path; None where there is none."""
    node: Any = tree
    for part in path:
        if not isinstance(node, Mapping) or part not in node:
            return None
        node = node[part]
    return node


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` laid over `base`: tables key by key, everything else replaced. Neither is changed."""
    result = {key: merged(value, {}) if isinstance(value, Mapping) else value for key, value in base.items()}
    for key, value in over.items():
        below = base.get(key)
        if isinstance(value, Mapping):
            result[key] = merged(below if isinstance(below, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def leaves(tree: Mapping[str, Any], above: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Every value that is no table, with its path."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*above, key))
        else:
            yield (*above, key), value
