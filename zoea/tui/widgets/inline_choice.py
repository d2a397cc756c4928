"""One value out of few, on one line: left and right change it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from zoea.text.control_characters import one_line
from zoea.tui.text_layout import fit_text
from zoea.tui.theme.role_styles import styles_of


class InlineChoice(Widget, can_focus=True):
    """Show `‹ label ›`; left, right or a click selects another option. Typed text never does.

    Args:
        options: (value, label) pairs, at least one.
    """

    DEFAULT_CSS = "InlineChoice { height: 1; width: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [("left", "step(-1)"), ("right", "step(1)")]

    class Changed(Message):
        """Sent when another value was selected."""

        def __init__(self, choice: InlineChoice) -> None:
            super().__init__()
            self.choice = choice

    def __init__(self, options: Sequence[tuple[str, str]], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._options = list(options)
        self._at = 0

    @property
    def value(self) -> str:
        return self._options[self._at][0]

    def offer(self, options: Sequence[tuple[str, str]]) -> None:
        """Replace the options; keep the value if it is among them."""
        kept = self.value
        self._options = list(options)
        self._at = next((at for at, (value, _) in enumerate(self._options) if value == kept), 0)
        self.refresh()

    def choose(self, value: str) -> None:
        """Select a value if it is among the options."""
        at = next((at for at, (known, _) in enumerate(self._options) if known == value), self._at)
        if at != self._at:
            self._at = at
            self.refresh()
            self.post_message(self.Changed(self))

    def action_step(self, by: int) -> None:
        self._at = (self._at + by) % len(self._options)
        self.refresh()
        self.post_message(self.Changed(self))

    def on_click(self, event: events.Click) -> None:
        self.action_step(1)

    def render_line(self, y: int) -> Strip:
        styles, plain, width = styles_of(self), self.rich_style, self.size.width
        label = one_line(self._options[self._at][1])
        marks = ("‹ ", " ›") if len(self._options) > 1 else ("", "")
        role = "key" if self.has_focus else "quiet"
        room = max(1, width - len(marks[0]) - len(marks[1]))
        shown = fit_text(label, min(room, len(label) * 2)).rstrip()
        segments = [
            Segment(marks[0], plain + styles.of(role)),
            Segment(shown, plain + styles.of("strong" if self.has_focus else "")),
            Segment(marks[1], plain + styles.of(role)),
        ]
        return Strip(segments).adjust_cell_length(width, plain)
