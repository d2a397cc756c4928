"""The export of a conversation to a file: format, path and redaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from zoea.model.errors import ZoeaError
from zoea.settings.paths import expand_home
from zoea.text.control_characters import one_line
from zoea.text.sentences import count_of
from zoea.transfer.export import Format, export_to_file, file_name
from zoea.tui.dialogs.modal import FormDialog
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.clickable_text import TextBlock

_WORDS = {
    Format.MARKDOWN: "Markdown, to read and to paste",
    Format.HTML: "HTML, one page without scripts",
    Format.JSONL: "JSON lines, every field of every row",
}


class ExportDialog(FormDialog[None]):
    """Replaces an existing file on a second enter only.

    Args:
        mysis_id: The mysis of the conversation.
        name: Its name.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "other_format", "format", priority=True),
        Binding("ctrl+r", "other_redaction", "redact", priority=True),
    ]
    VERB = "write"
    TITLE = "EXPORT"
    HINTS = "tab format · ^r secrets"
    FIRST = "Input"
    GOES_ON = False

    def __init__(self, mysis_id: int, name: str) -> None:
        super().__init__()
        self._mysis_id = mysis_id
        self._mysis = name
        self._form = Format.MARKDOWN
        self._redact: bool | None = None
        self._replaces = ""
        self._problem = ""

    @classmethod
    def open_over(cls, cockpit: Cockpit) -> ExportDialog:
        view = cockpit.action_context().targets[0]
        return cls(view.id, view.name)

    def fields(self) -> Iterable[Widget]:
        name = file_name(self._mysis, self._form, self.cockpit.now())
        return TextBlock(id="forms"), Input(name, compact=True, select_on_focus=False)

    def on_mount(self) -> None:
        self._draw()

    @property
    def path(self) -> str:
        return self.query_one(Input).value

    @property
    def _file(self) -> Path:
        return expand_home(self.path.strip())

    @property
    def redacts(self) -> bool:
        return self._form.redacts if self._redact is None else self._redact

    def action_other_format(self) -> None:
        """Choose the next format, with its file extension."""
        forms = list(Format)
        before = self._form
        self._form = forms[(forms.index(before) + 1) % len(forms)]
        field = self.query_one(Input)
        if field.value.endswith(f".{before}"):
            field.value = field.value.removesuffix(str(before)) + str(self._form)
        self._draw()

    def action_other_redaction(self) -> None:
        self._redact = not self.redacts
        self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._replaces = self._problem = ""
        self._draw()

    async def carry_out(self) -> None:
        name, opened = self.path.strip(), self.cockpit.opened
        if not name or opened is None:
            return
        path, replace = self._file, self._replaces == name
        if not replace and await asyncio.to_thread(path.exists):
            self._replaces = name
            self._draw()
            return
        turns = await asyncio.to_thread(
            export_to_file, opened.database, self._mysis_id, path, self._form, redact=self.redacts, replace=replace
        )
        self.cockpit.notify(f"{count_of(turns, 'turn')} written to {path}", title="Exported", markup=False)
        self.close()

    def say(self, error: ZoeaError) -> None:
        self._problem = error.text
        self._draw()

    def _draw(self) -> None:
        lines: list[list[Piece]] = [[(f"the whole conversation of {one_line(self._mysis)}", "strong")], []]
        for form in Format:
            chosen = form is self._form
            mark, role = ("› ", "title") if chosen else ("  ", "quiet")
            lines.append([(mark, "title"), (f"{form:<7}", role), (_WORDS[form], "" if chosen else "quiet")])
        self.query_one("#forms", TextBlock).put(lines)
        notes: list[list[Piece]] = []
        if self.redacts:
            notes.append([("Secrets are removed: passwords, keys, e-mail, IP addresses, phones", "quiet")])
            notes.append([("^r", "key"), (" keeps them", "quiet")])
        else:
            notes.append([("Secrets are kept: the file contains keys and addresses from the conversation", "waiting")])
            notes.append([("^r", "key"), (" removes them", "quiet")])
        if not self._file.is_absolute():
            notes.append([("The file goes to the folder in which Zoea was started", "quiet")])
        if self._replaces:
            notes.append([("The file exists: press enter again to replace it", "errored")])
        if self._problem:
            notes.append([(self._problem, "errored")])
        self.query_one("#error", TextBlock).put(notes)
