"""The base class of dialogs, the lines of their forms, and the question before something is spent or destroyed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.types import CSSPathType
from textual.widget import Widget
from textual.widgets import Static

from zoea.tui.commands.action import Handlers
from zoea.tui.commands.actions import BY_ID, bindings
from zoea.tui.screens.base import BaseScreen
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.clickable_text import TextBlock

T = TypeVar("T")


class CockpitDialog(ModalScreen[T], BaseScreen[T]):
    """A box in the middle of the screen. Keys do not reach the screen behind it, or the app."""

    CSS_PATH: ClassVar[CSSPathType | None] = "modal.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings((BY_ID["app.back"],))]

    def bind_actions(self) -> Handlers:
        return {"app.back": self.back}

    def back(self) -> None:
        """Close the dialog without a result."""
        self.dismiss()


def form_row(label: str, widget: Widget) -> ComposeResult:
    """Compose one line of a form: a label and an input."""
    with Horizontal(classes="field"):
        yield Static(label, classes="label", markup=False)
        yield widget


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
