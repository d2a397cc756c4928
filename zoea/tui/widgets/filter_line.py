"""One line to type a filter in; hidden while it is empty and left."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static


class FilterLine(Horizontal):
    """Tells each change at once; enter leaves the line and keeps the filter, escape takes it away."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear", "no filter", show=False),
        Binding("enter,down", "leave", "to the list", show=False, priority=True),
    ]

    class Changed(Message):
        """The text is another."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Closed(Message):
        """The line was left."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._input = Input(id="filter-text", placeholder="name, template, state, tag or text", compact=True)

    def compose(self) -> ComposeResult:
        yield Static("/", id="filter-mark", markup=False)
        yield self._input

    def on_mount(self) -> None:
        self.display = False

    @property
    def text(self) -> str:
        return self._input.value.strip()

    def open(self) -> None:
        self.display = True
        self._input.focus()

    def clear(self) -> None:
        self.action_clear()

    def action_clear(self) -> None:
        self._input.value = ""
        self.action_leave()

    def action_leave(self) -> None:
        self.display = bool(self.text)
        self.post_message(self.Closed())

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(event.value.strip()))
