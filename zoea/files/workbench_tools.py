"""The tools of the workbench as data: a swarm lists them without a process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COMMAND_S = 120
"""Seconds until a command of `run` is ended, where the call says nothing."""
_MOST_SECONDS = 3_600
WORKBENCH = "workbench"
"""The upstream of files, for myses with a folder in their template."""
_HARMLESS = frozenset({"run_stop"})
_TEXT = {"type": "string"}
_PATH = {"type": "string", "description": "Path of a file, relative to the folder."}
_UNDER = {"type": "string", "description": "Folder to look in; all if empty.", "default": ""}
_GLOB = {"type": "string", "description": "Glob for names, such as `*.py` or `src/**/*.c`.", "default": ""}
_NUMBER = {"type": "integer", "description": "Number of a command in the background.", "minimum": 1}


def _whole(description: str, default: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "description": description, "default": default, "minimum": 1, "maximum": most}


def _schema(required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required.split(), "additionalProperties": False}


_EDIT = _schema("old new", old={**_TEXT, "description": "Stands exactly once in the file."}, new=_TEXT)
TOOLS: Mapping[str, tuple[str, bool, dict[str, Any]]] = {
    "read_file": (
        "Read a text file as numbered lines, or an image.",
        True,
        _schema("path", path=_PATH, start=_whole("First line.", 1, 10_000_000), lines=_whole("Lines.", 2_000, 10_000)),
    ),
    "write_file": (
        "Write a whole file. One that is there must have been read, and not been changed since.",
        False,
        _schema("path content", path=_PATH, content=_TEXT),
    ),
    "edit_file": (
        "Replace exact texts in a file, each of which stands in it once; all or none.",
        False,
        _schema("path edits", path=_PATH, edits={"type": "array", "items": _EDIT, "minItems": 1, "maxItems": 100}),
    ),
    "list_files": (
        "List files, without those that .gitignore names.",
        True,
        _schema("", path=_UNDER, pattern=_GLOB, most=_whole("Files at most.", 1_000, 10_000)),
    ),
    "search_files": (
        "Search lines of files by a regular expression.",
        True,
        _schema(
            "expression",
            expression=_TEXT,
            path=_UNDER,
            pattern=_GLOB,
            most=_whole("Lines at most.", 200, 2_000),
            ignore_case={"type": "boolean", "default": False},
        ),
    ),
    "run": (
        "Run a command line in the folder; the answer holds its exit code, and begin and end of its output.",
        False,
        _schema(
            "command",
            command=_TEXT,
            timeout=_whole("Seconds until it is ended.", COMMAND_S, _MOST_SECONDS),
            background={"type": "boolean", "default": False, "description": "Return at once with a number."},
        ),
    ),
    "run_output": (
        "Show how a command in the background does, and its output.",
        True,
        _schema("number", number=_NUMBER),
    ),
    "run_stop": ("End a command in the background.", False, _schema("number", number=_NUMBER)),
    "diff": ("Show all changes since the worktree was made.", True, _schema("")),
}
"""Tools by name: description, whether it only reads, schema."""


def is_destructive(name: str) -> bool:
    """Return whether a tool can destroy something."""
    return not TOOLS[name][1] and name not in _HARMLESS
