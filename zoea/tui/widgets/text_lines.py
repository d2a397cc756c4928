"""Long text that scrolls: wrapped once per width, drawn line by line, never markup.

A Static would lay out a megabyte of text for every repaint.
"""

from __future__ import annotations

import asyncio

from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from zoea.text.control_characters import strip
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.text_layout import wrap_characters, wrap_words

_AT_ONCE = 20_000
"""Texts of up to this many characters are wrapped on the event loop, longer ones in a thread."""


class TextLines(ScrollView, can_focus=True):
    """Show a text in full; the keys of a scroll view scroll it.

    Args:
        by_words: Break lines between words, for prose; else keep every character, for data.
    """

    def __init__(self, *, by_words: bool = False, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._by_words = by_words
        self._text = ""
        self._lines: list[str] = []
        self._width = 0

    def put(self, text: str) -> None:
        """Show this text from its beginning."""
        if text != self._text:
            self._text = text
            self.scroll_to(0, 0, animate=False)
            if len(text) > _AT_ONCE:
                self._take([])  # until it is wrapped: what stood here belongs to something else
            self._wrap()

    @property
    def plain(self) -> str:
        """Return the wrapped text."""
        return "\n".join(self._lines)

    @property
    def is_laid_out(self) -> bool:
        """Whether the text is on the screen."""
        return bool(self._lines) or not self._text

    @property
    def lines_below(self) -> int:
        """Return how many lines follow below the visible ones."""
        return max(0, len(self._lines) - self.scroll_offset.y - self.scrollable_content_region.height)

    def on_resize(self, event: events.Resize) -> None:
        if self.scrollable_content_region.width != self._width:
            self._wrap()

    def _wrap(self) -> None:
        self._width = self.scrollable_content_region.width
        if self._width <= 0:
            return
        if len(self._text) <= _AT_ONCE:
            self._take(self._wrapped(self._text, self._width))
        else:
            self.run_worker(
                DeferredWork(lambda: self._wrap_aside(self._text, self._width)), exclusive=True, group="wrap"
            )

    async def _wrap_aside(self, text: str, width: int) -> None:
        lines = await asyncio.to_thread(self._wrapped, text, width)
        if text == self._text and width == self._width:
            self._take(lines)

    def _wrapped(self, text: str, width: int) -> list[str]:
        return list(wrap_words(strip(text), width)) if self._by_words else wrap_characters(text, width)

    def _take(self, lines: list[str]) -> None:
        self._lines = lines
        self.virtual_size = Size(0, len(lines))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        plain = self.rich_style
        width = self.scrollable_content_region.width
        place = y + self.scroll_offset.y
        if place >= len(self._lines):
            return Strip.blank(width, plain)
        return Strip([Segment(self._lines[place], plain)]).adjust_cell_length(width, plain)
