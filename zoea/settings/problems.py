"""Convert pydantic errors to problems with file, line, key and the nearest valid key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from zoea.settings.endpoints import ProviderSettings, UpstreamSettings
from zoea.settings.fields import Section
from zoea.settings.key_paths import DEFAULT, KeyPath, Origin, Problem, find_nearest, format_key

TABLES: Mapping[str, type[Section]] = {"provider": ProviderSettings, "upstream": UpstreamSettings}
"""Sections with named entries of one shape."""

MOST_NEAREST = 20
"""Unknown keys of a file for which a similar key is looked for; the search takes milliseconds for each."""
_QUOTED = re.compile(r"'([^']*)'")
_GUARDED = frozenset({"provider", "upstream"})
"""Sections whose values a message never repeats, because a key may be misplaced there."""


def find_problems(
    model: type[BaseModel], tree: Mapping[str, Any], origins: Mapping[KeyPath, Origin], *, partial: bool = False
) -> list[Problem]:
    """Return all problems of a tree; `partial` ignores missing keys."""
    try:
        model.model_validate(tree)
    except ValidationError as error:
        errors = [one for one in error.errors(include_url=False) if not (partial and one["type"] == "missing")]
        return _explained(model, tree, origins, errors)
    return []


def _explained(
    model: type[BaseModel], tree: Mapping[str, Any], origins: Mapping[KeyPath, Origin], found: list[ErrorDetails]
) -> list[Problem]:
    """Return one problem per key, sorted by line; messages of a union's members are joined."""
    by_path: dict[KeyPath, list[str]] = {}
    unknown: set[KeyPath] = set()
    values: dict[KeyPath, str] = {}
    for error in found:
        path = _path(tree, error)
        message = _message(error, path)
        if message not in by_path.setdefault(path, []):
            by_path[path].append(message)
        if error["type"] == "extra_forbidden":
            unknown.add(path)
        elif error["type"] == "literal_error" and isinstance(error["input"], str):
            words = _QUOTED.findall(error.get("ctx", {}).get("expected", ""))
            values[path] = find_nearest(error["input"].lower(), words)
    helped = frozenset(islice((path for path in by_path if path in unknown), MOST_NEAREST))
    problems = [
        Problem(
            format_key(path),
            ", or ".join(messages),
            find_origin(path, origins),
            _nearest(model, path) if path in helped else values.get(path, ""),
        )
        for path, messages in by_path.items()
    ]
    return sorted(problems, key=lambda problem: problem.origin.line)


def find_origin(path: KeyPath, origins: Mapping[KeyPath, Origin]) -> Origin:
    """Return the origin of a key, else of the table around it."""
    for length in range(len(path), 0, -1):
        if origin := origins.get(path[:length]):
            return origin
    return DEFAULT


def _path(tree: Mapping[str, Any], error: ErrorDetails) -> KeyPath:
    """Return the key of an error as far as the tree has it. A missing last part is added."""
    path: list[str] = []
    node: Any = tree
    for part in error["loc"]:
        if isinstance(node, Mapping) and isinstance(part, str) and part in node:
            path.append(part)
            node = node[part]
        elif isinstance(node, list) and isinstance(part, int) and isinstance(node[part], Mapping):
            path.append(str(part))
            node = node[part]
        elif error["type"] == "missing" and part == error["loc"][-1]:
            path.append(str(part))
        else:
            break
    return tuple(path)


def _message(error: ErrorDetails, path: KeyPath) -> str:
    match error["type"]:
        case "extra_forbidden":
            return "unknown key"
        case "missing":
            return "is missing"
        case "value_error":
            return error["msg"].removeprefix("Value error, ")
        case "model_type" | "dict_type" | "model_attributes_type":
            return "expected a table"
    message = error["msg"][:1].lower() + error["msg"][1:]
    value = error["input"]
    if isinstance(value, int | float) or (isinstance(value, str) and len(value) <= 20 and path[0] not in _GUARDED):
        message += f", not {value!r}"
    return message


def model_at(model: type[BaseModel], path: KeyPath) -> type[BaseModel] | None:
    """Return the model of the table at a path; None if its keys are unknown."""
    node: type[BaseModel] | None = model
    for place, part in enumerate(path):
        if place == 1 and path[0] in TABLES:
            node = TABLES[path[0]]
            continue
        if part.isdecimal() and node is not None:
            continue  # a table of a list
        field = node.model_fields.get(part) if node else None
        kind = field.annotation if field else None
        node = find_model(kind)
    return node


def find_model(kind: Any) -> type[BaseModel] | None:
    """Return the model of a table's type, also of one that may be unset."""
    kinds = (kind, *getattr(kind, "__args__", ()))
    if Ellipsis in kinds:
        return find_model(kinds[1])  # a list of tables
    return next((one for one in kinds if isinstance(one, type) and issubclass(one, BaseModel)), None)


def _nearest(model: type[BaseModel], path: KeyPath) -> str:
    """Return a similar key of the same table, else of another one."""
    here = model_at(model, path[:-1])
    begun = [name for name in (here.model_fields if here else ()) if len(path[-1]) > 2 and name.startswith(path[-1])]
    if here and (nearest := next(iter(begun), find_nearest(path[-1], here.model_fields))):
        return format_key((*path[:-1], nearest))
    elsewhere: dict[str, str] = {}
    for section in model.model_fields:
        inner = model_at(model, (section,))
        for name in inner.model_fields if inner and section not in TABLES else ():
            elsewhere.setdefault(name, f"{section}.{name}")
            elsewhere.setdefault(f"{section}.{name}", f"{section}.{name}")
    return elsewhere.get(find_nearest(format_key(path), elsewhere) or find_nearest(path[-1], elsewhere), "")
