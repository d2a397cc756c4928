"""Text areas that fold long pastes and open the person's own editor."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.widgets import TextArea

from zoea.text.control_characters import reveal
from zoea.text.sentences import count_of
from zoea.tui import number_format
from zoea.tui.terminal.external_editor import edit_text

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
                changed = await edit_text(self.full_text)
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
