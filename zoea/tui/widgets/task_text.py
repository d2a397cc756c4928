"""Inputs for a task and a folder, which complete paths."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input

from zoea.text.control_characters import reveal, reveal_exactly
from zoea.tui.widgets.long_text import FormText

MOST_LISTED = 5_000
"""Entries of a folder that are looked at."""
MOST_FOUND = 20
_TYPED = re.compile(r"(?:^|\s)@(\S*)$")


class TaskText(FormText):
    """The task. After `@`, tab completes the path of a file."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "complete", show=False)]

    files: tuple[str, ...] = ()
    """Paths that begin as the one that is being typed."""

    @property
    def typed_file(self) -> str | None:
        """The path that is being typed behind an `@`; None where none is."""
        row, column = self.cursor_location
        found = _TYPED.search(self.document.get_line(row)[:column])
        return found[1] if found else None

    def action_complete(self) -> None:
        typed = self.typed_file
        if typed is None or not self.files:
            self.app.action_focus_next()
            return
        row, column = self.cursor_location
        path = self.files[0]
        self.replace(path if path.endswith("/") else f"{path} ", (row, column - len(typed)), (row, column))


class FolderInput(Input):
    """The path of a folder, which tab completes."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "complete", show=False)]

    folders: tuple[str, ...] = ()
    """Folders that begin as the one that is being typed."""

    def validate_value(self, value: str) -> str:
        return reveal_exactly(value)

    def action_complete(self) -> None:
        if self.folders and self.folders[0] != self.value:
            self.value = self.folders[0]
            self.cursor_position = len(self.value)
        else:
            self.app.action_focus_next()


def find_folders(typed: str) -> tuple[str, ...]:
    """Return the paths of folders that begin so, each with a slash at its end."""
    if not typed:
        return ()
    home = f"{Path.home()}/" if typed.startswith("~/") else ""
    found = find_files(home + typed.removeprefix("~/") if home else typed)
    folders = (path for path in found if path.endswith("/"))
    return tuple(f"~/{path.removeprefix(home)}" if home else path for path in folders)


def find_files(typed: str, base: str = ".") -> tuple[str, ...]:
    """Return the paths that begin so, from a folder on; folders end with a slash.

    Hidden files have to be begun with a dot.
    """
    folder, name = os.path.split(typed)
    found = []
    try:
        with os.scandir(Path(base) / folder) as entries:
            for _, entry in zip(range(MOST_LISTED), entries, strict=False):
                if entry.name.startswith(name) and (name.startswith(".") or not entry.name.startswith(".")):
                    found.append(typed.removesuffix(name) + entry.name + ("/" if entry.is_dir() else ""))
    except (OSError, ValueError):
        return ()
    # A name with blanks or control characters could not be told from the text beside it.
    return tuple(path for path in sorted(found) if path == reveal(path) and not re.search(r"\s", path))[:MOST_FOUND]
