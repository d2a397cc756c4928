"""Read the settings of the first paint without validation, because pydantic takes too long to import.

Values of the wrong type are ignored here; `load` reports them.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from zoea.settings.paths import PROJECT_FILE, USER_FILE

_LARGEST = 1_000_000
_YES = ("1", "true", "yes", "on")


class EarlySettings(NamedTuple):
    """The usable `[tui]` settings of all layers."""

    theme: str = ""
    reduced_motion: bool = False
    bell: bool = True
    keys: Mapping[str, str] = {}


def read_early_settings(config: Path, env: Mapping[str, str], start: Path | None = None) -> EarlySettings:
    """Read the user's file, the nearest project file from `start` upward, and the environment."""
    here = (start or Path.cwd()).absolute()
    project = next((file for folder in (here, *here.parents) if (file := folder / PROJECT_FILE).is_file()), None)
    table: dict[str, Any] = {}
    keys: dict[str, str] = {}
    for said in (_read_tui_table(file) for file in (config / USER_FILE, project) if file):
        keys |= _flatten_keys(said.pop("keys", None))
        table |= said
    said = _read_environment(env)
    if "keys" in said:
        keys = _flatten_keys(said.pop("keys"))  # a variable replaces the tables of the files
    table |= said
    theme, calm, bell = table.get("theme"), table.get("reduced_motion"), table.get("bell")
    return EarlySettings(
        theme if isinstance(theme, str) else "",
        calm if isinstance(calm, bool) else False,
        bell if isinstance(bell, bool) else True,
        keys,
    )


def _read_tui_table(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            table = tomllib.loads(stream.read(_LARGEST).decode("utf-8-sig")).get("tui")
    except (OSError, ValueError, RecursionError):
        return {}
    return dict(table) if isinstance(table, dict) else {}


def _read_environment(env: Mapping[str, str]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if theme := env.get("ZOEA_TUI__THEME", "").strip():
        said["theme"] = theme
    for name in ("reduced_motion", "bell"):
        if word := env.get(f"ZOEA_TUI__{name.upper()}", "").strip():
            said[name] = word.lower() in _YES
    if text := env.get("ZOEA_TUI__KEYS", "").strip():
        try:
            said["keys"] = json.loads(text)
        except (ValueError, RecursionError):
            return said
    return said


def _flatten_keys(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    flat: dict[str, Any] = {}
    for name, one in value.items():
        flat |= {f"{name}.{inner}": key for inner, key in one.items()} if isinstance(one, dict) else {str(name): one}
    return {name: key for name, key in flat.items() if isinstance(key, str)}
