"""Format settings for people: every key with its value and origin, secrets hidden."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import tomlkit
from msgspec import Struct
from pydantic import SecretStr

from zoea.settings.endpoints import REFERENCE
from zoea.settings.key_paths import DEFAULT, KeyPath, Origin, format_key, iterate_leaves
from zoea.settings.layers import LoadedSettings
from zoea.text.control_characters import escape, reveal_exactly

HIDDEN = "‹hidden›"

_BOUNDS = frozenset(
    ("budget", name) for name in ("swarm_per_day", "mysis", "background", "swarm_money_per_day", "mysis_money")
)
_SECRET_NAME = re.compile(r"(?i)key|token|secret|passw|auth|credential|cookie")


class SettingRow(Struct, frozen=True):
    """A key with its value as plain data (None is unset) and origin."""

    key: str
    value: Any
    origin: Origin

    @property
    def text(self) -> str:
        """The value as TOML."""
        return "unset" if self.value is None else format_toml(self.value)


def list_settings(loaded: LoadedSettings) -> list[SettingRow]:
    """Return every key of the settings, in schema order."""
    return [
        SettingRow(format_key(path), hide_secrets(path, value), loaded.origins.get(format_key(path), DEFAULT))
        for path, value in _iterate_values(loaded.settings.model_dump())
    ]


def _iterate_values(tree: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any]]:
    for path, value in iterate_leaves(tree):
        yield path, "none" if value is None and path in _BOUNDS else value


def hide_secrets(path: KeyPath, value: Any) -> Any:
    """Return a value that is safe to show: possible secrets are hidden, references are not."""
    if isinstance(value, SecretStr):
        plain = value.get_secret_value()
        return plain if REFERENCE.fullmatch(plain) else HIDDEN
    if isinstance(value, str) and path[-1] in ("url", "base_url"):
        return _hide_query(value)
    if isinstance(value, list | tuple):
        return _hide_arguments(value) if path[-1] == "args" else [hide_secrets(path, one) for one in value]
    if isinstance(value, Mapping):
        return {key: hide_secrets((*path, key), one) for key, one in value.items()}
    if isinstance(value, str) and len(path) > 3 and _SECRET_NAME.search(path[-1]) and not REFERENCE.fullmatch(value):
        return HIDDEN
    return value.value if hasattr(value, "value") else value


def _hide_query(address: str) -> str:
    try:
        parts = urlsplit(address)
    except ValueError:
        return HIDDEN
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, place, parts.path, HIDDEN if parts.query else "", ""))


def _hide_arguments(args: Sequence[Any]) -> list[Any]:
    """Hide the arguments after a flag like `--token`."""
    shown: list[Any] = []
    hide_next = False
    for arg in args:
        flag, equals, value = str(arg).partition("=")
        telling = flag.startswith("-") and _SECRET_NAME.search(flag) is not None
        if hide_next and not flag.startswith("-"):
            shown.append(arg if "{" in str(arg) else HIDDEN)
        elif telling and equals:
            shown.append(arg if "{" in value else f"{flag}={HIDDEN}")
        else:
            shown.append(arg)
        hide_next = telling and not equals
    return shown


def format_toml(value: Any) -> str:
    """Format a value as TOML on one line."""
    plain = list(value) if isinstance(value, tuple) else value
    return escape_unprintable(tomlkit.item(plain).as_string())


def escape_unprintable(text: str) -> str:
    """Escape characters of a file's text that are hidden or not printable."""
    return "".join(char if char.isprintable() else escape(char) for char in reveal_exactly(text))
