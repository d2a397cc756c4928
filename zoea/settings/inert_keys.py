"""Splits the keys of a project's file by whether they need trust.

A key is untrusted until its field says `inert=True`: it changes looks, or a number that can neither spend, open, remove
nor weaken anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from zoea.settings.key_paths import KeyPath, get_value, merge_trees, put_value
from zoea.settings.problems import TABLES, find_model, find_problems
from zoea.settings.schema import Settings


def is_inert(field: FieldInfo) -> bool:
    """Return whether a key takes effect although its file is not trusted."""
    extra = field.json_schema_extra
    return isinstance(extra, dict) and extra.get("inert") is True


def iterate_fields(model: type[BaseModel], above: KeyPath = ()) -> Iterator[tuple[KeyPath, FieldInfo]]:
    """Yield each key of a schema with its field. Entries of `provider` and `upstream` have the name NAME."""
    for name, field in model.model_fields.items():
        path = (*above, field.alias or name)
        if (inner := find_model(field.annotation)) is None:
            yield path, field
        else:
            yield from iterate_fields(inner, (*path, "NAME") if model is Settings and name in TABLES else path)


def split_keys(
    model: type[BaseModel], tree: Mapping[str, Any], above: KeyPath = ()
) -> tuple[list[KeyPath], list[KeyPath]]:
    """Return a valid file's inert keys and those that need trust, in file order."""
    inert: list[KeyPath] = []
    held: list[KeyPath] = []
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    for key, value in tree.items():
        path = (*above, key)
        field = fields.get(key)
        inner = find_model(field.annotation) if field is not None else None
        if inner is not None and isinstance(value, Mapping):
            entries = value.items() if model is Settings and key in TABLES else ()
            tables = [((*path, name), entry) for name, entry in entries if isinstance(entry, Mapping)]
            for place, table in tables or [(path, value)]:
                below = split_keys(inner, table, place)
                inert += below[0]
                held += below[1]
        elif field is not None and is_inert(field):
            inert.append(path)
        else:
            held.append(path)
    return inert, held


def keep_inert(tree: Mapping[str, Any]) -> tuple[dict[str, Any], list[KeyPath]]:
    """Return the valid inert part of a project's `zoea.toml`, and the keys that need trust."""
    inert, held = split_keys(Settings, tree)
    kept: dict[str, Any] = {}
    for path in inert:
        alone: dict[str, Any] = {}
        put_value(alone, path, get_value(tree, path))
        if not find_problems(Settings, alone, {}, partial=True):
            kept = merge_trees(kept, alone)
    return kept, held
