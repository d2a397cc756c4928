"""Read the settings of the first paint without validation, because pydantic takes too long to import.

Values of the wrong type are ignored here; `load` reports them.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from zoea.settings.paths import USER_FILE, is_trusted
from zoea.settings.project_files import find_project
from zoea.settings.small_file import check_text, read_small_file

_YES = ("1", "true", "yes", "on")
_SWITCHES = ("reduced_motion", "bell", "show_reasoning")
_INERT = ("theme", *_SWITCHES)
"""Keys of a project's file that need no trust, as their fields say; all others of this module need it."""
_TABLES = ("tui", "broadcast")


class EarlySettings(NamedTuple):
    """The usable `[tui]` and `[broadcast]` settings of all layers; None where one is not set."""

    theme: str = ""
    reduced_motion: bool = False
    bell: bool = True
    show_reasoning: bool = False
    keys: Mapping[str, str] = {}
    ask_above: int | None = None


def read_early_settings(config: Path, env: Mapping[str, str], start: Path | None = None) -> EarlySettings:
    """Read the user's file, the nearest project file from `start` upward, and the environment."""
    project = find_project(start or Path.cwd()).file
    table: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    keys: dict[str, str] = {}
    for said, limit in (_read_tables(config / USER_FILE), *([_read_tables(project, config)] if project else [])):
        keys |= _flatten_keys(said.pop("keys", None))
        table |= said
        limits |= limit
    limits |= _read_limits(env)
    said = _read_environment(env)
    if "keys" in said:
        keys = _flatten_keys(said.pop("keys"))  # a variable replaces the tables of the files
    table |= said
    theme, calm, bell, reasoning = (table.get(name) for name in ("theme", *_SWITCHES))
    return EarlySettings(
        theme if isinstance(theme, str) else "",
        calm if isinstance(calm, bool) else False,
        bell if isinstance(bell, bool) else True,
        reasoning if isinstance(reasoning, bool) else False,
        keys,
        _count(limits.get("ask_above")),
    )


def _read_tables(file: Path, config: Path | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tables `tui` and `broadcast` of a file; empty where it has none.

    With `config` it is a project's file, of which only inert keys count unless it is trusted.
    """
    from zoea.model.errors import TrustError  # late, because few start in a project

    try:
        raw = read_small_file(file)
        document = tomllib.loads(check_text(raw.decode("utf-8-sig").replace("\r\n", "\n")))
        tui, broadcast = (dict(found) if isinstance(found := document.get(name), dict) else {} for name in _TABLES)
        if config is not None and not ({*tui} <= {*_INERT} and not broadcast) and not is_trusted(config, file, raw):
            tui, broadcast = {name: value for name, value in tui.items() if name in _INERT}, {}
    except (OSError, ValueError, RecursionError, TrustError):
        return {}, {}
    return tui, broadcast


def _read_limits(env: Mapping[str, str]) -> dict[str, Any]:
    word = env.get("ZOEA_BROADCAST__ASK_ABOVE", "").strip()
    return {"ask_above": int(word)} if word.isdecimal() else {}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _read_environment(env: Mapping[str, str]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if theme := env.get("ZOEA_TUI__THEME", "").strip():
        said["theme"] = theme
    for name in _SWITCHES:
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
