"""The question before something is spent or destroyed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content

from zoea.tui.dialogs.modal import CockpitDialog
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.clickable_text import TextBlock


class ConfirmDialog(CockpitDialog[bool]):
    """Returns True when the person said yes.

    Args:
        title: The action, in capitals.
        lines: Its effect; the first line is the question.
        yes: What `y` does, as a verb.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape", "answer(False)", "no"),
    ]

    def __init__(self, title: str, lines: Sequence[str], yes: str) -> None:
        super().__init__()
        self._title = title
        self._lines = lines
        self._yes = yes

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = Content(self._title)
            yield TextBlock(id="words")

    def on_mount(self) -> None:
        lines: list[list[Piece]] = [[(line, "" if number else "strong")] for number, line in enumerate(self._lines)]
        lines += [[], [("y", "key"), (f"  {self._yes}", ""), ("     esc", "key"), ("  cancel", "")]]
        self.query_one(TextBlock).put(lines)

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)
