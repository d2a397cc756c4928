"""Checks the settings of the cockpit: theme files, the chosen theme, and keys."""

from __future__ import annotations

from zoea.model.errors import SettingsError
from zoea.settings.key_paths import DEFAULT, Layer, Origin, Problem, find_nearest, format_key
from zoea.settings.layers import load
from zoea.settings.paths import Places
from zoea.tui.commands import keymap
from zoea.tui.commands.actions import BY_ID
from zoea.tui.theme.themes import load_themes


def check_cockpit(where: Places) -> list[Problem]:
    """Return the problems of theme files, of the theme's name and of remapped keys."""
    themes, errors = load_themes(where.config)
    found = [Problem("", error.what, Origin(Layer.USER)) for error in errors]
    try:
        loaded = load(where)
    except SettingsError:
        return found  # reported by the check of the settings
    chosen = loaded.settings.tui.theme
    if chosen not in themes:
        origin = loaded.origins.get("tui.theme", DEFAULT)
        found.append(Problem("tui.theme", f"there is no theme {chosen!r}", origin, find_nearest(chosen, themes)))
    for action, message in keymap.problems(loaded.settings.tui.keys).items():
        key = format_key(("tui", "keys", action))
        near = "" if action in BY_ID else find_nearest(action, BY_ID)
        found.append(Problem(key, message, loaded.origins.get(key, DEFAULT), near))
    return found
