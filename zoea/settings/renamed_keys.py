"""Keys of earlier releases, which are read as their successors with a note."""

from __future__ import annotations

import copy
from typing import Any

from zoea.settings.key_paths import KeyPath, LayerValues, format_key, get_value, put_value

_OLD: KeyPath = ("swarm", "resume")
_NEW: KeyPath = ("swarm", "restart")
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def rename_keys(source: LayerValues) -> tuple[LayerValues, tuple[str, ...]]:
    """Return the layer with present keys only, and a note for each former key.

    A former key with a value that it could not have stays, and is reported as unknown. Beside its
    successor it has no effect.
    """
    value = get_value(source.tree, _OLD)
    meaning = _restart(value)
    if meaning is None:
        return source, ()
    tree = copy.deepcopy(dict(source.tree))
    del tree["swarm"]["resume"]
    if get_value(tree, _NEW) is None:
        put_value(tree, _NEW, meaning)
    origin = source.origins.get(_OLD)
    origins = dict(source.origins)
    if origin is not None:
        origins.setdefault(_NEW, origin)
    where = f"{origin}: " if origin is not None else ""
    note = f'{where}{format_key(_OLD)} is now {format_key(_NEW)}: write {format_key(_NEW)} = "{meaning}"'
    return LayerValues(source.layer, tree, origins), (note,)


def _restart(value: Any) -> str | None:
    word = str(value).strip().lower()
    if word in _TRUE:
        return "always"
    return "ask" if word in _FALSE else None
