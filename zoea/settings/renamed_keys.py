"""Keys of earlier releases, which are read as their successors with a note."""

from __future__ import annotations

import copy
from typing import Any

from zoea.settings.key_paths import KeyPath, LayerValues, format_key, get_value, put_value

_OLD: KeyPath = ("swarm", "resume")
_NEW: KeyPath = ("swarm", "restart")
_BUDGETS = ("token_budget_per_agent", "token_budget_per_task")
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def rename_keys(source: LayerValues) -> tuple[LayerValues, tuple[str, ...]]:
    """Return the layer with present keys only, and a note for each former key.

    Shannon's `session.token_budget_per_agent` and `…_per_task` are read as those of `budget`, without a note.

    A former key with a value that it could not have stays, and is reported as unknown. Beside its
    successor it has no effect.
    """
    source = _move_budgets(source)
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


def _move_budgets(source: LayerValues) -> LayerValues:
    """Move Shannon's budgets into the section `budget`. Of a budget in both sections the lower counts."""
    given = {key: value for key in _BUDGETS if (value := get_value(source.tree, ("session", key))) is not None}
    if not given:
        return source
    tree, origins = copy.deepcopy(dict(source.tree)), dict(source.origins)
    for key, value in given.items():
        del tree["session"][key]
        present = get_value(tree, ("budget", key))
        if present is not None and not (_number(value) < _number(present)):
            continue
        put_value(tree, ("budget", key), value)
        if (origin := source.origins.get(("session", key))) is not None:
            origins[("budget", key)] = origin
    return LayerValues(source.layer, tree, origins)


def budget_key(key: str) -> str:
    """Return the key under which a key of Shannon's `session` is written."""
    section, _, name = key.partition(".")
    return f"budget.{name}" if section == "session" and name in _BUDGETS else key


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("-inf")  # reported as invalid where it stands


def _restart(value: Any) -> str | None:
    word = str(value).strip().lower()
    if word in _TRUE:
        return "always"
    return "ask" if word in _FALSE else None
