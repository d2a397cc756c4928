"""Key paths, nested tables, and the origin and problems of their values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from typing import Any

from msgspec import Struct

from zoea.model.errors import SettingsError
from zoea.text.control_characters import reveal_exactly
from zoea.text.shorten import head_with_length

KeyPath = tuple[str, ...]
"""A key as its parts: `("swarm", "max_myses")`."""


class Layer(StrEnum):
    """The layers of settings, lowest first."""

    DEFAULT = "default"
    USER = "user"
    PROJECT = "project"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "command line"
    TEMPLATE = "template"


class Origin(Struct, frozen=True):
    """The layer of a value, with file (or variable) and line from 1. 0 without a line."""

    layer: Layer
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        if not self.file:
            return str(self.layer)
        return f"{self.file}:{self.line}" if self.line else self.file


DEFAULT = Origin(Layer.DEFAULT)


@dataclass(frozen=True, slots=True)
class LayerValues:
    """The values of one layer, and their origins."""

    layer: Layer
    tree: Mapping[str, Any] = field(default_factory=dict, repr=False)
    origins: Mapping[KeyPath, Origin] = field(default_factory=dict)


class Problem(Struct, frozen=True):
    """A problem with the settings; it never contains a value that may be secret."""

    key: str
    message: str
    origin: Origin = DEFAULT
    nearest: str = ""

    def __str__(self) -> str:
        place = "" if self.origin == DEFAULT else f"{self.origin}: "
        key = f"{self.key}: " if self.key else ""
        nearest = f"; did you mean {self.nearest}?" if self.nearest else ""
        return f"{place}{key}{self.message}{nearest}"

    def as_dict(self) -> dict[str, str | int]:
        return {
            "key": self.key,
            "message": self.message,
            "layer": str(self.origin.layer),
            "file": self.origin.file,
            "line": self.origin.line,
            "nearest": self.nearest,
        }


MOST_LINES = 50
"""Problems that a message lists."""


class SettingsInvalid(SettingsError):
    """All problems of all layers; `what` has one line for each of the first `MOST_LINES`."""

    def __init__(self, problems: Sequence[Problem], *, hint: str = "", title: str | None = None) -> None:
        lines = [str(problem) for problem in problems[:MOST_LINES]]
        if len(problems) > MOST_LINES:
            lines.append(f"and {len(problems) - MOST_LINES:,} more")
        super().__init__(
            lines[0] if len(lines) == 1 else "\n  ".join([f"{len(problems):,} problems", *lines]),
            hint=hint or "Correct these lines, then run `zoea config check`.",
            title=title,
        )
        self.problems = tuple(problems)


def format_key(path: Iterable[str | int]) -> str:
    """Format a path as a TOML key, with quotes where needed."""
    return ".".join(_part(str(part)) for part in path)


@lru_cache(4096)
def _part(part: str) -> str:
    if part and all(char.isascii() and (char.isalnum() or char in "-_") for char in part):
        return part
    return reveal_exactly(json.dumps(head_with_length(part, 60), ensure_ascii=False))


def find_nearest(wrong: str, known: Iterable[str], least: float = 0.6) -> str:
    """Return the known key most similar to the wrong one, or "". `least` is the similarity from 0 to 1 that counts."""
    matches = get_close_matches(wrong, list(known), n=1, cutoff=least)
    return matches[0] if matches else ""


def put_value(tree: dict[str, Any], path: KeyPath, value: Any) -> None:
    """Set a value, creating tables on the way; other values on the way are replaced."""
    node = tree
    for part in path[:-1]:
        inner = node.get(part)
        if not isinstance(inner, dict):
            inner = node[part] = {}
        node = inner
    node[path[-1]] = value


def get_value(tree: Mapping[str, Any], path: KeyPath) -> Any:
    """Return the value at a path, or None."""
    node: Any = tree
    for part in path:
        if not isinstance(node, Mapping) or part not in node:
            return None
        node = node[part]
    return node


def merge_trees(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `over` merged over `base`: tables by key, other values replaced. Neither is changed."""
    result = {key: merge_trees(value, {}) if isinstance(value, Mapping) else value for key, value in base.items()}
    for key, value in over.items():
        below = base.get(key)
        if isinstance(value, Mapping):
            result[key] = merge_trees(below if isinstance(below, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def iterate_leaves(tree: Mapping[str, Any], above: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield every value that is not a table, with its path."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from iterate_leaves(value, (*above, key))
        else:
            yield (*above, key), value
