"""Parse a TOML or JSON file into a tree with the line of every key.

`tomllib` keeps no positions, so the text is split into statements (a key with its value, or a
header) and `tomllib` parses each one again for its keys.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from zoea.settings.json_document import JsonInvalid, parse_json
from zoea.settings.key_paths import KeyPath, Layer, Origin, Problem
from zoea.settings.small_file import MOST_BYTES, read_small_file
from zoea.text.document_bounds import check_settings_text

MOST_KEPT = 16_000
"""Bytes of templates that are kept as they were parsed, so that 32 hostile ones do not fill the memory."""
_SYNTAX_PLACE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")
_EMPTY_LINES = re.compile(r"(?>(?:[ \t]*(?:#[^\n]*)?\n)+)")
_OUTSIDE = re.compile(r'"""|\'\'\'|["\'#\[\]{}\n]')
_INSIDE = {
    '"': re.compile(r'\\.|"|\n', re.DOTALL),
    "'": re.compile(r"'|\n"),
    '"""': re.compile(r'\\.|"{3,5}', re.DOTALL),
    "'''": re.compile(r"'{3,5}"),
    "#": re.compile(r"\n"),
}
_KEY_PART = r"""(?:[\w-]++|"(?:[^"\\\n]++|\\.)*+"|'[^'\n]*+')"""
_PLAIN_PAIR = re.compile(rf"([ \t]*+{_KEY_PART}(?>(?:[ \t]*+\.[ \t]*+{_KEY_PART})*)[ \t]*+=)[ \t]*+[^\[{{ \t]")
"""A key, and a value that has no keys of its own."""
_BARE_KEY = r"([\w-]++(?>(?:[ \t]*+\.[ \t]*+[\w-]++)*))[ \t]*+"
_BARE = re.compile(rf"[ \t]*+(?:{_BARE_KEY}=[ \t]*+[^\[{{ \t]|\[\[?[ \t]*+{_BARE_KEY}\])")
"""A key without quotes and such a value, or a header without quotes."""


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a file.

    Attributes:
        lines: The line of every table and key, by path.
        problems: The reasons why `tree` is empty.
    """

    tree: dict[str, Any] = field(default_factory=dict, repr=False)
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    raw: bytes = field(default=b"", repr=False)


def read_document(file: Path, layer: Layer) -> Document:
    """Read a TOML file, or a JSON file by its suffix. Errors become problems, and a missing file is empty."""
    origin = Origin(layer, str(file))
    try:
        if not file.is_file():
            if file.exists():
                return Document(problems=(Problem("", "is not a file", origin),))
            if file.is_symlink():
                return Document(problems=(Problem("", "is a link to a file that is not there", origin),))
            return Document()
        raw = read_small_file(file)
    except OSError as error:
        return Document(problems=(Problem("", f"cannot be read: {error.strerror}", origin),))
    if layer is Layer.TEMPLATE:
        return parse_template_file(file, raw)
    return parse_document(raw, origin, is_json=file.suffix == ".json")


def parse_template_file(file: Path, raw: bytes) -> Document:
    """Parse the bytes of a template. The result for a small one is kept for the same bytes; nobody changes it."""
    parse = _parse_template if len(raw) <= MOST_KEPT else _parse_template.__wrapped__
    return parse(file, raw)


@lru_cache(32)
def _parse_template(file: Path, raw: bytes) -> Document:
    return parse_document(raw, Origin(Layer.TEMPLATE, str(file)), is_json=file.suffix == ".json")


def parse_document(raw: bytes, origin: Origin, *, is_json: bool = False) -> Document:
    """Parse bytes read before, as trust in a file's content requires."""

    def broken(message: str, line: int = 0) -> Document:
        return Document(problems=(Problem("", message, Origin(origin.layer, origin.file, line)),), raw=raw)

    if len(raw) > MOST_BYTES:
        return broken(f"is larger than {MOST_BYTES:,} bytes")
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        return broken("is not UTF-8", raw.count(b"\n", 0, error.start) + 1)
    try:
        check_settings_text(text)
        tree, lines = parse_json(text) if is_json else (tomllib.loads(text), _find_lines(text))
    except JsonInvalid as error:
        return broken(str(error), error.line)
    except tomllib.TOMLDecodeError as error:
        message, line = _describe_syntax_error(str(error), text)
        return broken(f"is not valid TOML: {message}", line)
    except ValueError as error:
        return broken(str(error))
    return Document(tree, lines, raw=raw)


def _describe_syntax_error(message: str, text: str) -> tuple[str, int]:
    """Return the parser's message without its position, and the line."""
    place = _SYNTAX_PLACE.search(message)
    if place is None:
        return message, 0
    line = int(place[1]) if place[1] else text.rstrip().count("\n") + 1
    what = message[: place.start()]
    return what[:1].lower() + what[1:], line


def split_statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each statement of a valid TOML text with the offset of its start."""
    start, depth, mode = _skip_empty_lines(text, 0), 0, ""
    position = start
    while match := (_INSIDE[mode] if mode else _OUTSIDE).search(text, position):
        token, position = match[0], match.end()
        if mode == "#":
            mode, position = "", match.start()
        elif mode:
            mode = mode if token.startswith("\\") else ""
        elif token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
        elif token != "\n":
            mode = token
        elif depth == 0:
            yield from _yield_statement(text, start, match.start())
            start = position = _skip_empty_lines(text, position)
    yield from _yield_statement(text, start, len(text))


def _skip_empty_lines(text: str, start: int) -> int:
    """Return where the first line begins that holds more than a comment."""
    return match.end() if (match := _EMPTY_LINES.match(text, start)) else start


def _yield_statement(text: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    """Yield the statement between two offsets, unless it is blank or a comment."""
    statement = text[start:end]
    if statement.strip() and not statement.lstrip().startswith("#"):
        yield start, statement


def _find_lines(text: str) -> dict[KeyPath, int]:
    """Return every path the text sets, with the first line that names it.

    The path of a table in a list has its index.
    """
    lines: dict[KeyPath, int] = {}
    items: dict[KeyPath, int] = {}
    table: KeyPath = ()
    line, counted = 1, 0
    for start, statement in split_statements(text):
        line += text.count("\n", counted, start)
        counted = start
        paths = _read_paths(statement)
        if statement.lstrip().startswith("["):
            table = paths[-1]
            if statement.lstrip().startswith("[["):
                lines.setdefault(table, line)
                items[table] = items.get(table, -1) + 1
                table = (*table, str(items[table]))
            for length in range(1, len(table) + 1):
                lines.setdefault(table[:length], line)
        else:
            for path in paths:
                lines.setdefault((*table, *path), line)
    return lines


def _read_paths(statement: str) -> list[KeyPath]:
    """Return the path of each key of a statement, those above it first."""
    if bare := _BARE.match(statement):  # `tomllib` takes five times as long
        path = tuple(part.strip(" \t") for part in (bare[1] or bare[2]).split("."))
        return [path[:length] for length in range(1, len(path) + 1)]
    plain = _PLAIN_PAIR.match(statement)  # `tomllib` takes 100 ns for each character of a text
    return list(_iterate_paths(tomllib.loads(f"{plain[1]} 0" if plain else statement), ()))


def _iterate_paths(tree: Any, above: KeyPath) -> Iterator[KeyPath]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield (*above, key)
            yield from _iterate_paths(value, (*above, key))
