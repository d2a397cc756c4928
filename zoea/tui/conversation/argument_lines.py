"""Format arguments of a call as lines that parse to what is sent. Pure."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any

from msgspec import Struct

from zoea.model.enums import CallState
from zoea.model.values import ToolCall
from zoea.text.call_text import parse_arguments, reveal_arguments
from zoea.text.command_lines import names_command
from zoea.text.control_characters import one_line, reveal_line
from zoea.text.large_json import indent, is_deep
from zoea.tui.conversation.change_lines import DIFF_ROLES
from zoea.tui.text_layout import Piece

GUTTER = "│ "
"""Stands before each line of a text, so that no text can look like another argument."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NAME_MOST = 40
_COMPARED = 250_000
"""Products of line counts above this are not compared, because a diff may take the square of its lines."""
_REPLACEMENTS = {
    "old_string": "new_string",
    "old_str": "new_str",
    "old_text": "new_text",
    "oldText": "newText",
    "old": "new",
    "before": "after",
    "search": "replace",
}
"""Names of a text that a call replaces, and of the text that takes its place."""
_PATHS = ("path", "file_path", "filePath", "file", "filename")
_CONTENTS = ("content", "contents", "file_text")
_HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@", re.MULTILINE)
_FILE = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE)


class FileChange(Struct, frozen=True):
    """A file that calls changed, with its added and removed lines."""

    path: str
    added: int
    removed: int


def has_texts(arguments: str) -> bool:
    """Return whether the arguments hold a text of several lines, or one that replaces another."""
    return _holds_text(parse_arguments(arguments))


def has_lines(arguments: str) -> bool:
    """Return whether the arguments hold such texts or a command line."""
    values = parse_arguments(arguments) or {}
    return _holds_text(values) or any(_is_command(key, value) for key, value in values.items())


def iterate_argument_lines(arguments: str, *, hidden: str = "") -> Iterator[list[Piece]]:
    """Yield the arguments, one a line, and each text of several lines as its lines. The last piece may be wrapped.

    A replacement is a diff of all its lines. A command line is shown as it is, one that is a list of words as
    `NAME (words):` with the quotes that a shell would need. Arguments that are large, deep or have unusual names are
    shown as JSON.

    Args:
        hidden: Arguments with this value are omitted, such as those Zoea fills in.
    """
    values = parse_arguments(arguments)
    can_list = bool(values) and not is_deep(values) and _is_plain(values)
    lines = list(_fields(values, "", hidden)) if values and can_list else []
    if not can_list or any(len(line[0][0]) > _NAME_MOST for line in lines):
        lines = [[(line, "")] for line in reveal_arguments(indent(arguments)).split("\n")]
    yield from lines


def _is_plain(value: Any) -> bool:
    """Return whether all names in a value are plain words."""
    if isinstance(value, dict):
        return all(_NAME.fullmatch(key) and _is_plain(item) for key, item in value.items())
    return all(map(_is_plain, value)) if isinstance(value, list) else True


def _fields(values: Mapping[str, Any], above: str, hidden: str = "") -> Iterator[list[Piece]]:
    replaced = dict(_find_replacements(values))
    for key, value in values.items():
        if key in replaced:
            yield [(f"{above}{key} → {replaced[key]}:", "llm")]
            yield from _compare(value.split("\n"), values[replaced[key]].split("\n"))
        elif key not in replaced.values() and not (hidden and value == hidden):
            yield from _value(f"{above}{key}", value, is_command=_is_command(key, value))


def _is_command(key: str, value: Any) -> bool:
    words = value if isinstance(value, list) else [value]
    return names_command(key) and bool(value) and all(isinstance(word, str) for word in words)


def _value(name: str, value: Any, *, is_command: bool = False) -> Iterator[list[Piece]]:
    if is_command and isinstance(value, list):
        name, value = f"{name} (words)", shlex.join(value)
    if isinstance(value, str) and (is_command or "\n" in value):
        yield [(f"{name}:", "llm")]
        for line, role in mark_diff(value):
            yield [(f"  {GUTTER}", "quiet"), (reveal_line(line), role)]
    elif isinstance(value, dict) and _holds_text(value):
        yield from _fields(value, f"{name}.")
    elif isinstance(value, list) and _holds_text(value):
        for place, item in enumerate(value):
            yield from _value(f"{name}[{place}]", item)
    else:
        yield [(f"{name}: ", "llm"), (reveal_arguments(json.dumps(value, ensure_ascii=False)), "")]


def _holds_text(value: Any) -> bool:
    if isinstance(value, str):
        return "\n" in value
    if isinstance(value, dict):
        return any(_find_replacements(value)) or any(map(_holds_text, value.values()))
    return isinstance(value, list) and any(map(_holds_text, value))


def _find_replacements(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the names of a text and of the text that replaces it."""
    for old, new in _REPLACEMENTS.items():
        if isinstance(values.get(old), str) and isinstance(values.get(new), str):
            yield old, new


def _compare(old: list[str], new: list[str]) -> Iterator[list[Piece]]:
    for sign, line in _iterate_diff(old, new):
        yield [(f"{sign} {GUTTER}", DIFF_ROLES.get(sign, "quiet")), (reveal_line(line), DIFF_ROLES.get(sign, ""))]


def _iterate_diff(old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each line of both with `-`, `+`, or a blank where both have it."""
    if len(old) * len(new) > _COMPARED:
        codes = [("replace", 0, len(old), 0, len(new))]
    else:
        codes = list(SequenceMatcher(None, old, new).get_opcodes())
    for code, start, end, new_start, new_end in codes:
        if code == "equal":
            yield from ((" ", line) for line in old[start:end])
        else:
            yield from (("-", line) for line in old[start:end])
            yield from (("+", line) for line in new[new_start:new_end])


def mark_diff(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a text with the role of each: those of unified diffs are coloured.

    The counts of a hunk say which lines belong to it, so that a list with dashes keeps its colour.
    """
    is_diff = _HUNK.search(text) is not None
    old = new = 0
    for line in text.split("\n"):
        role = ""
        if old > 0 or new > 0:
            sign = line[:1]
            role = sign if sign in ("+", "-") else ""
            old -= sign in ("", " ", "-")
            new -= sign in ("", " ", "+")
        elif is_diff and (hunk := _HUNK.match(line)):
            old, new = (1 if count is None else int(count) for count in hunk.groups())
            role = "llm"
        elif is_diff and line.startswith(("--- ", "+++ ")):
            role = "strong"
        yield line, role


def list_changes(calls: Iterable[ToolCall]) -> list[FileChange]:
    """Return the files that finished calls changed, as far as their arguments tell."""
    changes: dict[str, FileChange] = {}
    for call in calls:
        values = parse_arguments(call.arguments) if call.state is CallState.DONE else None
        for path, added, removed in _find_changes(values, "", "write" in call.name or "create" in call.name):
            before = changes.get(path, FileChange(path, 0, 0))
            changes[path] = FileChange(path, before.added + added, before.removed + removed)
    return list(changes.values())


def _find_changes(value: Any, path: str, writes: bool) -> Iterator[tuple[str, int, int]]:
    """Yield path, added and removed lines of each change in the arguments of a call."""
    if isinstance(value, list):
        for item in value:
            yield from _find_changes(item, path, writes)
    elif isinstance(value, str) and _HUNK.search(value):
        files = list(_FILE.finditer(value))
        for place, file in enumerate(files):
            end = files[place + 1].start() if place + 1 < len(files) else len(value)
            roles = [role for _, role in mark_diff(value[file.start() : end])]
            yield one_line(file[1]), roles.count("+"), roles.count("-")
    elif isinstance(value, dict):
        path = next((value[name] for name in _PATHS if isinstance(value.get(name), str)), path)
        for old, new in _find_replacements(value):
            signs = [sign for sign, _ in _iterate_diff(value[old].split("\n"), value[new].split("\n"))]
            if path:
                yield one_line(path), signs.count("+"), signs.count("-")
        for key, item in value.items():
            if writes and path and key in _CONTENTS and isinstance(item, str):
                yield one_line(path), item.count("\n") + (not item.endswith("\n")), 0
            else:
                yield from _find_changes(item, path, writes)
