"""One-line inputs: find words in a conversation, filter a list."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input, Static

WAIT_S = 0.08


class _Words(Input):
    BINDINGS: ClassVar[list[BindingType]] = [("down", "other(1)"), ("up", "other(-1)")]

    bar: FindBar

    def action_other(self, by: int) -> None:
        self.bar.step(by)


class FindBar(Horizontal):
    """Show an input and a match count; hidden until `open`.

    Args:
        search: Called with the words 80 ms after the last key, and on enter, then with `go` to go to the first match.
        step: Called to go to the next or previous match while typing.
        place: Where the words are found, as the empty input says.
    """

    DEFAULT_CSS = """
    FindBar { height: 1; }
    FindBar Input { width: 1fr; height: 1; border: none; padding: 0; }
    FindBar #find-sign { width: 2; }
    FindBar #find-count { width: auto; min-width: 12; text-align: right; padding: 0 1; }
    """

    ON_ENTER: ClassVar[str] = "go to it"

    def __init__(
        self,
        search: Callable[[str, bool], None],
        step: Callable[[int], None],
        *,
        id: str,
        place: str = "this conversation",
    ) -> None:
        super().__init__(id=id)
        self._place = place
        self._search = search
        self.step = step
        self._timer: Timer | None = None

    def on_mount(self) -> None:
        self.display = False

    @property
    def count(self) -> str:
        """Return the text beside the input."""
        return str(self.query_one("#find-count", Static).content)

    def open(self) -> None:
        if not self.children:  # not before, because a screen opens sooner without its inputs
            words = _Words(placeholder=f"find in {self._place}", compact=True, select_on_focus=True)
            words.bar = self
            self.mount(Static("/ ", id="find-sign", markup=False), words, Static("", id="find-count", markup=False))
        self.display = True
        self.query_one(_Words).focus()

    def close(self) -> None:
        self._stop()
        if self.children:
            with self.prevent(Input.Changed):
                self.query_one(_Words).value = ""
            self.tell("")
        self.display = False

    def tell(self, text: str) -> None:
        """Show a text beside the input: `3 of 12`, or an error."""
        self.query_one("#find-count", Static).update(Content(text))

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._stop()
        self._timer = self.set_timer(WAIT_S, self._want)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._stop()
        self._search(event.value, True)

    def _want(self) -> None:
        if self._timer is not None:  # None if enter was pressed before the timer fired
            self._timer = None
            self._search(self.query_one(_Words).value, False)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None


class FilterLine(Horizontal):
    """Show an input for a filter; hidden while empty and unfocused.

    Enter leaves the input and keeps the filter; escape clears it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear", "clear", show=False),
        Binding("enter,down", "leave", "keep it", show=False, priority=True),
    ]

    class Changed(Message):
        """Sent on every change of the text."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Closed(Message):
        """Sent when the input was left."""

    def __init__(self, *, placeholder: str = "name, or tag: state: template: says:", id: str | None = None) -> None:
        super().__init__(id=id)
        self.placeholder = placeholder
        """What the empty input says, from its next opening on."""

    @cached_property
    def input(self) -> Input:
        """The input. It is made and mounted when it is first needed, because a screen opens sooner without it."""
        made = Input(id="filter-text", compact=True)
        self.mount(Static("/", id="filter-mark", markup=False), made)
        return made

    def on_mount(self) -> None:
        self.display = False

    @property
    def text(self) -> str:
        return self.input.value.strip() if self.children else ""

    def open(self) -> None:
        self.input.placeholder = self.placeholder
        self.display = True
        self.input.focus()

    def drop(self) -> None:
        """Forget the text without leaving another widget."""
        with self.prevent(Input.Changed):
            self._empty()
        self.display = False

    def _empty(self) -> None:
        if self.children:
            self.input.value = ""

    def action_clear(self) -> None:
        self._empty()
        self.action_leave()

    def action_leave(self) -> None:
        self.display = bool(self.text)
        self.post_message(self.Closed())

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(event.value.strip()))
