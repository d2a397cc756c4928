"""The line between two parts of one frame: `├─ alpha ──────── tab ┤`. Its words can be clicked."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from zoea.text.control_characters import strip
from zoea.tui.theme.role_styles import styles_of

Word = tuple[str, str, str]
"""A text, its role, and what a click on it does, as Textual names actions; empty for nothing."""


class Rule(Widget):
    """Titles on the left, one on the right; the frame's own line between them."""

    DEFAULT_CSS = "Rule { height: 1; width: 100%; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._left: Sequence[Word] = ()
        self._right: Sequence[Word] = ()

    def put(self, left: Sequence[Word], right: Sequence[Word] = ()) -> None:
        """Show these words; draws only where something changed."""
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.refresh()

    def _placed(self) -> list[tuple[int, Word]]:
        """Each word that fits, with the column it begins in."""
        room = self.size.width - 3
        right = sum(cell_len(strip(text)) + 2 for text, _, _ in self._right)
        placed: list[tuple[int, Word]] = []
        at = 2
        for text, role, action in self._left:
            shown = strip(text)
            if at + cell_len(shown) + 2 > room - right:
                break
            placed.append((at, (f" {shown} ", role, action)))
            at += cell_len(shown) + 3
        at = room - right + 1
        for text, role, action in self._right if at > 2 else ():
            shown = strip(text)
            placed.append((at, (f" {shown} ", role, action)))
            at += cell_len(shown) + 2
        return placed

    def render_line(self, y: int) -> Strip:
        plain, styles = self.rich_style, styles_of(self)
        segments = [Segment("├─", plain)]
        at = 2
        for start, (text, role, _) in self._placed():
            segments += [Segment("─" * (start - at), plain), Segment(text, plain + styles.of(role))]
            at = start + cell_len(text)
        segments += [Segment("─" * max(0, self.size.width - at - 1), plain), Segment("┤", plain)]
        return Strip(segments).adjust_cell_length(self.size.width, plain)

    async def on_click(self, event: events.Click) -> None:
        for start, (text, _, action) in self._placed():
            if action and start <= event.x < start + cell_len(text):
                await self.run_action(action)
