"""Changing the person's `config.toml` as they would: only the keys meant, every comment kept.

What the change would make invalid is refused before anything is written.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.container import Container
from tomlkit.items import Table

from zoea.settings.document import parse_document, read_document
from zoea.settings.key_paths import KeyPath, Layer, Origin, Problem, SettingsInvalid, format_key, get_value
from zoea.settings.private_file import lock_file, write_private
from zoea.settings.problems import find_problems
from zoea.settings.schema import Settings
from zoea.settings.settings_display import format_toml

_HEADER = re.compile(r"^\s*\[", re.MULTILINE)


def set_keys(file: Path, values: Mapping[str, Any]) -> None:
    """Set keys of a settings file (0600), or take them out, in one step.

    A key that stands there as a comment, as the sample file has them, is set in its
    place. A link stays one: what it points to is written.

    Args:
        file: The file; made where there is none.
        values: By dotted key, odd parts in quotes; None takes the key out.

    Raises:
        SettingsInvalid: where the file is no TOML, or a value is not allowed; nothing was written.
        SettingsError: where it cannot be written.
    """
    file = file.resolve()
    with lock_file(file):
        before = read_document(file, Layer.USER)
        if before.problems:
            raise SettingsInvalid(before.problems)
        text = before.raw.decode("utf-8-sig").replace("\r\n", "\n")
        paths = {parse_key(key): value for key, value in values.items()}
        for path, value in paths.items():
            text = _removed(text, path) if value is None else _set(text, path, value)
        if problems := _wrong(text, file, tuple(paths)):
            raise SettingsInvalid(problems)
        if text != before.raw.decode("utf-8-sig"):
            write_private(file, text)


def parse_key(key: str) -> KeyPath:
    """`tui.keys."swarm.hold"` -> ("tui", "keys", "swarm.hold"). Raises ValueError for no key."""
    node: Any = tomllib.loads(f"{key} = 0")
    path: list[str] = []
    while isinstance(node, dict):
        if len(node) != 1:
            raise ValueError(f"{key!r} is no key")
        part, node = next(iter(node.items()))
        path.append(part)
    return tuple(path)


def _set(text: str, path: KeyPath, value: Any) -> str:
    for changed in _uncommented(text, path, value):
        if get_value(_tree(changed), path) == _plain(value) and get_value(_tree(text), path) is None:
            return changed
    document = tomlkit.parse(text)
    node: Container | Table = document
    for part in path[:-1]:
        if not isinstance(node.get(part), Mapping):
            node[part] = tomlkit.table(is_super_table=part != path[-2])
        node = node[part]
    node[path[-1]] = _plain(value)
    return tomlkit.dumps(document)


def _uncommented(text: str, path: KeyPath, value: Any) -> list[str]:
    """The text with the commented-out key of its section set, if it has one."""
    section, key = path[:-1], path[-1]
    start = 0
    if section:
        header = re.search(rf"^\s*\[\s*{re.escape(format_key(section))}\s*\][^\n]*$", text, re.MULTILINE)
        if header is None:
            return []
        start = header.end()
    after = _HEADER.search(text, start)
    end = after.start() if after else len(text)
    comment = re.compile(rf"^#\s?{re.escape(format_key((key,)))}[ \t]*=[^\n]*$", re.MULTILINE).search(text, start, end)
    if comment is None:
        return []
    return [f"{text[: comment.start()]}{format_key((key,))} = {format_toml(_plain(value))}{text[comment.end() :]}"]


def _removed(text: str, path: KeyPath) -> str:
    document = tomlkit.parse(text)
    node: Any = document
    for part in path[:-1]:
        node = node.get(part) if isinstance(node, Mapping) else None
    if not isinstance(node, Mapping) or path[-1] not in node:
        return text
    del node[path[-1]]  # type: ignore[attr-defined]  # a table of tomlkit's, which is a mapping that can change
    return tomlkit.dumps(document)


def _wrong(text: str, file: Path, paths: tuple[KeyPath, ...]) -> list[Problem]:
    """What the new text says wrong about the keys that were set; older mistakes stand as they stood."""
    origin = Origin(Layer.USER, str(file))
    document = parse_document(text.encode(), origin)
    if document.problems:
        return list(document.problems)
    origins = {path: Origin(Layer.USER, str(file), line) for path, line in document.lines.items()}
    ours = {format_key(path) for path in paths}
    return [
        problem
        for problem in find_problems(Settings, document.tree, origins, partial=True)
        if any(problem.key == key or problem.key.startswith(f"{key}.") for key in ours)
    ]


def _tree(text: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
