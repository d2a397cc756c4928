"""Text areas that fold long pastes and open the person's own editor."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.widgets import TextArea

from zoea.text.control_characters import reveal
from zoea.text.sentences import count_of
from zoea.tui import number_format

if TYPE_CHECKING:
    from zoea.tui.state.cockpit import Cockpit

FOLD_OVER = 4_000
"""Longer pasted texts are replaced by a mark."""


class FoldedTexts:
    """Keep long texts that are shown as a short mark in the input. A mark that a person edits becomes plain text."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """Return a short text unchanged, else its mark."""
        if len(text) <= FOLD_OVER:
            return text
        for mark, kept in self._kept.items():
            if kept == text:
                return mark
        lines = text.count("\n") + 1
        mark = f"‹text {len(self._kept) + 1}: {number_format.size(len(text))}, {count_of(lines, 'line')}›"
        self._kept[mark] = text
        return mark

    def unfold(self, text: str) -> str:
        """Return the text with every mark replaced by its full text."""
        for mark, kept in self._kept.items():
            if mark in text:
                text = text.replace(mark, kept)
        return text


class LongText(TextArea):
    """Text area for text of any length; `ctrl+o` edits it in the person's own editor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+j,alt+enter", "line", "new line", show=False, priority=True),
        Binding("ctrl+o", "editor", "editor", priority=True),
    ]

    _folds: FoldedTexts | None = None

    @property
    def folds(self) -> FoldedTexts:
        """The long texts that it shows as marks."""
        self._folds = self._folds or FoldedTexts()
        return self._folds

    @property
    def full_text(self) -> str:
        """The text with folded texts in full."""
        return self.folds.unfold(self.text)

    def put(self, text: str) -> None:
        """Replace the text, and go to its end."""
        # A text area writes what it holds to the terminal, and drafts and sent messages may hold anything.
        self.load_text(self.folds.fold(reveal(text)))
        self.move_cursor(self.document.end)

    def refuse(self, why: str) -> None:
        """Say why the editor did not change the text."""
        self.notify(why, severity="warning", markup=False)

    def action_line(self) -> None:
        self.insert("\n")

    def action_editor(self) -> None:
        cast("Cockpit", self.app).start_work(self._edit, group="editor")

    async def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default().stop()
        if not self.read_only and (done := self._replace_via_keyboard(self.folds.fold(event.text), *self.selection)):
            self.move_cursor(done.end_location)

    async def _edit(self) -> None:
        try:
            # Nothing is drawn while the editor has the terminal.
            with self.app.batch_update(), self.app.suspend():
                changed = await edit(self.full_text)
        except SuspendNotSupported:
            self.refuse("This terminal cannot run an editor")
            return
        except OSError as error:
            self.refuse(f"The editor did not start: {error}")
            return
        finally:
            self.app.refresh(layout=True)
        self.put(changed)
        self.focus()


class FormText(LongText):
    """A text field of a form. Up and down leave it from its first and last line."""

    def action_cursor_up(self, select: bool = False) -> None:
        if select or not self.cursor_at_first_line:
            super().action_cursor_up(select)
        else:
            self.app.action_focus_previous()

    def action_cursor_down(self, select: bool = False) -> None:
        if select or not self.cursor_at_last_line:
            super().action_cursor_down(select)
        else:
            self.app.action_focus_next()


EDITOR = "vi"
_TAKE_LINE = frozenset({"vi", "vim", "nvim", "nano", "emacs", "emacsclient", "micro", "kak", "joe"})


def command(env: Mapping[str, str] = os.environ) -> list[str]:
    """Return the editor with its arguments. Raises OSError for a value that is no valid shell text."""
    for name in ("VISUAL", "EDITOR"):
        if env.get(name, "").strip():
            try:
                return shlex.split(env[name])
            except ValueError as error:
                raise OSError(f"${name}: {error}") from error
    return [EDITOR]


async def open_editor(file: Path, line: int = 0) -> int:
    """Open a file in the person's editor and return its exit code. Raises OSError when it cannot be started.

    Args:
        line: The line to go to, for editors that take `+LINE`.
    """
    words = command()
    place = [f"+{line}"] if line and Path(words[0]).name in _TAKE_LINE else []
    # Python's streams have the terminal, because the usual descriptors lead to the log.
    process = await asyncio.create_subprocess_exec(
        *words, *place, str(file), stdout=sys.__stdout__, stderr=sys.__stderr__
    )
    return await process.wait()


async def edit(text: str) -> str:
    """Return the text as the editor saved it, without the final newline that editors add.

    Raises OSError when the editor cannot be started or fails, or its file cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="zoea-") as folder:
        file = Path(folder) / "message.md"
        file.write_text(text, encoding="utf-8")
        if code := await open_editor(file):
            raise OSError(f"{Path(command()[0]).name} ended with {code}; the text is as it was")
        return file.read_text(encoding="utf-8", errors="replace").removesuffix("\n")
