"""Reads the settings of the first paint without pydantic, whose import is slow.

Values of the wrong type are ignored here; `load` reports them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoea.settings.early_defaults import EARLY, NEED_TRUST, SECTIONS, EarlySettings
from zoea.settings.paths import USER_FILE, is_trusted
from zoea.settings.project_files import find_project
from zoea.settings.small_file import read_small_file
from zoea.text.document_bounds import parse_toml

_YES = ("1", "true", "yes", "on")


def read_early_settings(config: Path, env: Mapping[str, str], start: Path | None = None) -> EarlySettings:
    """Read the user's file, the nearest project file from `start` upward, and the environment."""
    project = find_project(start or Path.cwd()).file
    values: dict[str, Any] = {}
    for layer in (_read_file(config / USER_FILE), _read_file(project, config) if project else {}):
        keys = {**values.get("keys", {}), **_flatten_keys(layer.get("keys"))}
        values |= {**layer, "keys": keys}
    values |= _read_environment(env)
    return EARLY._replace(**{name: value for name, value in values.items() if _is_usable(name, value)})


def _is_usable(name: str, value: Any) -> bool:
    default = getattr(EARLY, name)
    return type(value) is type(default) and (type(value) is not int or value >= 0)


def _read_file(file: Path, config: Path | None = None) -> dict[str, Any]:
    """Return the values of a file; empty where it cannot be read.

    With `config` it is a project's file, of which only inert keys count unless it is trusted.
    """
    from zoea.model.errors import TrustError  # late, because few start in a project

    try:
        raw = read_small_file(file)
        document = parse_toml(raw.decode("utf-8-sig").replace("\r\n", "\n"))
        tables = {name: document.get(section) for name, section in SECTIONS.items()}
        values = {name: table[name] for name, table in tables.items() if isinstance(table, dict) and name in table}
        if config is not None and any(name in values for name in NEED_TRUST) and not is_trusted(config, file, raw):
            values = {name: value for name, value in values.items() if name not in NEED_TRUST}
    except (OSError, ValueError, RecursionError, TrustError):
        return {}
    return values


def _read_environment(env: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the variables. One with keys replaces the tables of the files."""
    values: dict[str, Any] = {}
    for name, section in SECTIONS.items():
        word, default = env.get(f"ZOEA_{section}__{name}".upper(), "").strip(), getattr(EARLY, name)
        if not word:
            continue
        if isinstance(default, bool):
            values[name] = word.lower() in _YES
        elif isinstance(default, int):
            values |= {name: int(word)} if word.isdecimal() else {}
        elif isinstance(default, str):
            values[name] = word
        else:
            try:
                values[name] = _flatten_keys(json.loads(word))
            except (ValueError, RecursionError):
                continue
    return values


def _flatten_keys(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    flat: dict[str, Any] = {}
    for name, one in value.items():
        flat |= {f"{name}.{inner}": key for inner, key in one.items()} if isinstance(one, dict) else {str(name): one}
    return {name: key for name, key in flat.items() if isinstance(key, str)}
