"""The settings as a form: its fields, the parsing of typed text, and saving.

It is built from the schema, so that a new setting appears without a change here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, Literal, get_args, get_origin

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from zoea.settings.config_writer import set_keys
from zoea.settings.fields import Page, page_of, parse_words
from zoea.settings.key_paths import DEFAULT, KeyPath, Layer, Origin, Problem, SettingsInvalid, format_key
from zoea.settings.layers import LoadedSettings, load
from zoea.settings.paths import Places
from zoea.settings.problems import TABLES, model_at
from zoea.settings.reference import describe_kind
from zoea.settings.schema import Settings
from zoea.settings.settings_display import HIDDEN, list_settings
from zoea.tui.commands import keymap
from zoea.tui.commands.actions import ACTIONS
from zoea.tui.widgets.status_bars import key_name

LOOK = "look"
KEYS = "keys"
_ELSEWHERE = {("tui", "theme"), ("tui", "keys")}
"""Settings of the cockpit that have a group of their own."""

_WHOLE = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?\d{1,18}\.\d{1,18}")


class SettingField(Struct, frozen=True):
    """One setting in the form.

    Attributes:
        text: The text of the input; empty where the setting is unset.
        options: All possible values, where they are few.
        page: Where the form shows it.
        locked: Why it cannot be changed here; empty where it can.
    """

    path: KeyPath
    title: str
    description: str
    kind: str
    text: str
    origin: Origin
    options: tuple[str, ...] = ()
    locked: str = ""
    default: str = ""
    page: Page = Page.LOOK

    @property
    def key(self) -> str:
        return format_key(self.path)

    @property
    def origin_text(self) -> str:
        """The origin in short: `default`, `config.toml:12`, `$ZOEA_…`."""
        match self.origin.layer:
            case Layer.USER | Layer.PROJECT:
                line = f":{self.origin.line}" if self.origin.line else ""
                return f"{PurePath(self.origin.file).name}{line}"
            case Layer.ENVIRONMENT:
                return f"${self.origin.file}"
        return str(self.origin.layer)


class SettingGroup(Struct, frozen=True):
    """A section of the settings."""

    id: str
    title: str
    description: str
    fields: tuple[SettingField, ...] = ()


def groups(loaded: LoadedSettings) -> list[SettingGroup]:
    """Return every section in the schema's order, the theme first and the keys last."""
    values = {row.key: row.value for row in list_settings(loaded)}
    found = [SettingGroup(LOOK, "Theme", "Colours and glyphs; what is under the cursor is shown at once.")]
    top: list[SettingField] = []
    for name, info in Settings.model_fields.items():
        section = model_at(Settings, (name,))
        if name == "world" and not _concerns_world(loaded):
            continue
        if name in TABLES:
            for entry in getattr(loaded.settings, name):
                fields = tuple(_fields(TABLES[name], (name, entry), loaded, values, info))
                found.append(
                    SettingGroup(format_key((name, entry)), f"{info.title} · {entry}", _doc(TABLES[name]), fields)
                )
        elif section is None:
            top.append(_field(info, (name,), loaded, values, info))
        else:
            fields = tuple(_fields(section, (name,), loaded, values, info))
            found.append(SettingGroup(name, info.title or name, _doc(section), fields))
    found.insert(1, SettingGroup("top", "Workspace", "What is opened where none is named.", tuple(top)))
    return [*found, SettingGroup(KEYS, "Keys", "A key for each action.", tuple(_keys(loaded)))]


def lock(group: SettingGroup, reason: str, *, but_looks: bool) -> SettingGroup:
    """Return the section with its settings locked, or those of all but the cockpit."""
    fields = [
        field if but_looks and field.path[0] == "tui" else replace(field, locked=reason) for field in group.fields
    ]
    return replace(group, fields=tuple(fields))


def _concerns_world(loaded: LoadedSettings) -> bool:
    """Return whether the sandbox world was ever started here, or has a non-default setting."""
    said = (origin.layer for key, origin in loaded.origins.items() if key.startswith("world."))
    return loaded.places.world.exists() or any(layer is not Layer.DEFAULT for layer in said)


def parsed(field: SettingField, text: str) -> Any:
    """Return typed text as a value of the field's kind; None removes the setting.

    Text that does not fit is returned as text, so that the schema refuses it.
    """
    if field.kind == "text":
        return text if text or field.default == "" else None
    text = text.strip()
    if not text:
        return [] if field.kind.startswith("list") else None
    if field.kind.startswith("list"):
        found = list(parse_words(text))
        return found if field.kind == "list of texts" else [_scalar(one) for one in found]
    if field.options and "true" not in field.options:
        return text
    return _scalar(text)


def save(where: Places, path: KeyPath, value: Any) -> LoadedSettings:
    """Write one value (None removes it), and read all settings again. Reads and writes files.

    Raises:
        SettingsInvalid: The value is not allowed, alone or beside the others; nothing was written.
        SettingsError: The file cannot be written.
    """
    if path[:-1] == ("tui", "keys") and value is not None:
        chosen = {**load(where).settings.tui.keys, path[-1]: value}
        if wrong := keymap.problems(chosen).get(path[-1]):
            raise SettingsInvalid([Problem(format_key(path), wrong)])
    elif value is not None:
        # Validated as the highest layer before it is written.
        load(where, overrides={".".join(path): value})
    set_keys(where.config_file, {format_key(path): value})
    return load(where)


def _scalar(text: str) -> Any:
    match text.lower():
        case "true" | "false" as word:
            return word == "true"
    if _WHOLE.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    return text


def _keys(loaded: LoadedSettings) -> Iterator[SettingField]:
    chosen = loaded.settings.tui.keys
    for action in ACTIONS:
        path = ("tui", "keys", action.id)
        yield SettingField(
            path,
            action.title,
            action.description,
            "key",
            chosen.get(action.id, key_name(action.key)),
            loaded.origins.get(format_key(path), DEFAULT),
            default=key_name(action.key),
        )


def _fields(
    model: type[BaseModel], above: KeyPath, loaded: LoadedSettings, values: dict[str, Any], section: FieldInfo
) -> Iterator[SettingField]:
    for name, info in model.model_fields.items():
        if (*above, name) not in _ELSEWHERE:
            yield _field(info, (*above, name), loaded, values, section)


def _field(
    info: FieldInfo, path: KeyPath, loaded: LoadedSettings, values: dict[str, Any], section: FieldInfo
) -> SettingField:
    words_of_kind = describe_kind(info)
    key = format_key(path)
    value = values[key] if key in values else _table_at(values, path)
    locked = ""
    if words_of_kind == "table" or isinstance(value, dict):
        locked = "a table: write it in config.toml"
    elif HIDDEN in str(value):
        locked = "it holds a secret: write it in config.toml"
    return SettingField(
        path,
        info.title or path[-1],
        info.description or "",
        words_of_kind,
        _text(value),
        loaded.origins.get(key, DEFAULT),
        _options(info),
        locked,
        _text(
            "none"
            if info.default is None and "none" in words_of_kind
            else (info.default.value if hasattr(info.default, "value") else info.default)
        ),
        page_of(info) or page_of(section) or Page.SYSTEM,
    )


def _table_at(values: dict[str, Any], path: KeyPath) -> Any:
    """Return the entries of a table, which have keys of their own."""
    prefix = f"{format_key(path)}."
    found = {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}
    return found or None


def _options(info: FieldInfo) -> tuple[str, ...]:
    annotation = info.annotation
    if annotation is bool:
        return ("true", "false")
    if get_origin(annotation) is Literal:
        return tuple(str(one) for one in get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, str) and hasattr(annotation, "__members__"):
        return tuple(str(one.value) for one in annotation.__members__.values())
    return ()


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return str(int(value)) if value.is_integer() else str(value)
        case list() | tuple():
            return ", ".join(_text(one) for one in value)
        case dict():
            return ", ".join(f"{key} = {_text(one)}" for key, one in value.items())
    return str(value)


def _doc(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip()
