"""Read Shannon's settings: YAML with one table `session`, and its keys that are budgets here."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoea.model.errors import SettingsError
from zoea.settings.key_paths import LayerValues, get_value, put_value
from zoea.settings.small_file import read_small_text

_LINE = re.compile(r"(?P<indent>[ ]*+)(?P<key>[A-Za-z_]\w*+)[ ]*+:(?P<value>[^#]*+)(?:#.*)?")
_TABLE = "session"
_BUDGETS = ("token_budget_per_agent", "token_budget_per_task")
_MOST_KEYS = 100
_NUMBER = re.compile(r"\d{1,30}(?:\.\d{1,30})?")


def read_shannon_file(file: Path) -> tuple[Mapping[str, Any], Mapping[str, int]]:
    """Return the keys of its table `session`, as `{"session.ttl": "720h"}`, and their lines. Other tables are left out.

    Raises:
        SettingsError: The file cannot be read, or has no such table, or a line is no `key: value`.
    """
    try:
        text = read_small_text(file)
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else "") or error
        raise SettingsError(f"{file} cannot be read: {why}", hint="Name a shannon.yaml.") from None
    table, values, lines = "", dict[str, Any](), dict[str, int]()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#") or line.strip() in ("---", "..."):
            continue
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            if table != _TABLE:
                continue
            raise SettingsError(f"{file}, line {number}: {line.strip()[:60]!r} is no `key: value`")
        if not match["indent"]:
            table = match["key"]
        elif table == _TABLE:
            key = f"{_TABLE}.{match['key']}"
            values[key], lines[key] = _value(match["value"].strip(" ").strip("\"'")), number
    if len(values) > _MOST_KEYS:
        raise SettingsError(f"{file} has {len(values):,} keys in its table `session`, more than {_MOST_KEYS}")
    if not values:
        raise SettingsError(f"{file} has no table `session`", hint="Name a shannon.yaml.")
    return values, lines


def _value(text: str) -> int | float | str:
    if not _NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)


def budget_key(key: str) -> str:
    """Return the key under which a key of Shannon's `session` is written."""
    section, _, name = key.partition(".")
    return f"budget.{name}" if section == _TABLE and name in _BUDGETS else key


def move_budgets(source: LayerValues) -> LayerValues:
    """Move Shannon's budgets into the section `budget`. Of a budget in both sections the lower counts."""
    values = {key: value for key in _BUDGETS if (value := get_value(source.tree, (_TABLE, key))) is not None}
    if not values:
        return source
    tree, origins = copy.deepcopy(dict(source.tree)), dict(source.origins)
    for key, value in values.items():
        del tree[_TABLE][key]
        present = get_value(tree, ("budget", key))
        if present is not None and not (_number(value) < _number(present)):
            continue
        put_value(tree, ("budget", key), value)
        if (origin := source.origins.get((_TABLE, key))) is not None:
            origins[("budget", key)] = origin
    return LayerValues(source.layer, tree, origins)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("-inf")  # reported as invalid where it stands
