"""Read Shannon's settings: YAML with one table `session` of numbers and durations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoea.model.errors import SettingsError
from zoea.settings.small_file import read_small_text

_LINE = re.compile(r"(?P<indent>[ ]*+)(?P<key>[A-Za-z_]\w*+)[ ]*+:(?P<value>[^#]*+)(?:#.*)?")
_TABLE = "session"
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
    table, found, lines = "", dict[str, Any](), dict[str, int]()
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
            found[key], lines[key] = _value(match["value"].strip(" ").strip("\"'")), number
    if len(found) > _MOST_KEYS:
        raise SettingsError(f"{file} has {len(found):,} keys in its table `session`, more than {_MOST_KEYS}")
    if not found:
        raise SettingsError(f"{file} has no table `session`", hint="Name a shannon.yaml.")
    return found, lines


def _value(text: str) -> int | float | str:
    if not _NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)
