"""Change keys of the user's `config.toml`, keeping all other text and comments.

A change that would make the file invalid is refused before anything is written.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.container import Container
from tomlkit.items import Table

from zoea.settings.document import Document, parse_document, read_document
from zoea.settings.key_paths import KeyPath, Layer, Origin, Problem, SettingsInvalid, format_key, get_value
from zoea.settings.private_file import lock_file, write_private
from zoea.settings.problems import find_problems
from zoea.settings.schema import Settings
from zoea.settings.settings_display import format_toml

_HEADER = re.compile(r"^\s*\[", re.MULTILINE)


def set_keys(file: Path, values: Mapping[str, Any]) -> None:
    """Set or remove keys of a settings file (mode 0600) in one step.

    A key that is commented out, as in the sample file, is set in its place. Symbolic links are kept; a missing
    file is created.

    Args:
        values: By dotted key, special parts in quotes; None removes the key.

    Raises:
        SettingsInvalid: The file is not TOML or a value is invalid; nothing was written.
        SettingsError: The file cannot be written.
    """
    file = Path(os.path.realpath(file))
    with lock_file(file):
        # A missing file is created, and a link to nothing replaced.
        before = read_document(file, Layer.USER) if file.exists() else Document()
        if before.problems:
            raise SettingsInvalid(before.problems)
        text = before.raw.decode("utf-8-sig").replace("\r\n", "\n")
        paths = {parse_key(key): value for key, value in values.items()}
        for path, value in paths.items():
            text = _remove_key(text, path) if value is None else _set_key(text, path, value)
        if problems := _find_new_problems(text, file, tuple(paths)):
            raise SettingsInvalid(problems)
        if text != before.raw.decode("utf-8-sig"):
            write_private(file, text)


def parse_key(key: str) -> KeyPath:
    """Convert `tui.keys."swarm.hold"` to ("tui", "keys", "swarm.hold").

    Raises:
        ValueError: The text is not a key.
    """
    node: Any = tomllib.loads(f"{key} = 0")
    path: list[str] = []
    while isinstance(node, dict):
        if len(node) != 1:
            raise ValueError(f"{key!r} is no key")
        part, node = next(iter(node.items()))
        path.append(part)
    return tuple(path)


def _set_key(text: str, path: KeyPath, value: Any) -> str:
    for changed in _uncomment_key(text, path, value):
        if get_value(_parse_tree(changed), path) == _to_list(value) and get_value(_parse_tree(text), path) is None:
            return changed
    document = tomlkit.parse(text)
    node: Container | Table = document
    for part in path[:-1]:
        if not isinstance(node.get(part), Mapping):
            node[part] = tomlkit.table(is_super_table=part != path[-2])
        node = node[part]
    node[path[-1]] = _to_list(value)
    return tomlkit.dumps(document)


def _uncomment_key(text: str, path: KeyPath, value: Any) -> list[str]:
    """Return the text with the section's commented-out key set, or nothing if it has none."""
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
    return [f"{text[: comment.start()]}{format_key((key,))} = {format_toml(_to_list(value))}{text[comment.end() :]}"]


def _remove_key(text: str, path: KeyPath) -> str:
    document = tomlkit.parse(text)
    node: Any = document
    for part in path[:-1]:
        node = node.get(part) if isinstance(node, Mapping) else None
    if not isinstance(node, MutableMapping) or path[-1] not in node:
        return text
    del node[path[-1]]
    return tomlkit.dumps(document)


def _find_new_problems(text: str, file: Path, paths: tuple[KeyPath, ...]) -> list[Problem]:
    """Return the problems of the keys that were set; existing problems of others are ignored."""
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


def _parse_tree(text: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def _to_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
