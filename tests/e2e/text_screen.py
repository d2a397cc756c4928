"""The text of a terminal's screen, without its colours."""

from __future__ import annotations

import re
from functools import cache

import pyte
from pyte.charsets import LAT1_MAP
from pyte.modes import IRM
from pyte.screens import Char, wcwidth

_COLOURS = re.compile(rb"\x1b\[[0-9;]*m")
_BEGUN = re.compile(rb"\x1b(?:\[[0-9;]*)?\Z")


class TextScreen:
    """Draws what a program writes, and tells the text that stands there."""

    def __init__(self, columns: int, lines: int) -> None:
        self._screen = _PlainScreen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._lines = [""] * lines
        self._begun = b""

    def feed(self, data: bytes) -> None:
        """Draw bytes. Colours are left out: pyte would read them character by character."""
        data = _COLOURS.sub(b"", self._begun + data)
        begun = _BEGUN.search(data)
        whole = begun.start() if begun else len(data)
        self._begun = data[whole:]
        self._stream.feed(data[:whole])

    @property
    def text(self) -> str:
        """The text of the screen."""
        screen = self._screen
        # pyte's `display` measures each cell of the screen; most lines are as they were at the last look.
        while screen.dirty:
            row = screen.buffer[line := screen.dirty.pop()]
            self._lines[line] = "".join([row[column].data for column in range(screen.columns)]).rstrip()
        return "\n".join(self._lines)


class _PlainScreen(pyte.Screen):
    """Draws characters of one column in one step, where pyte would take many for each."""

    def draw(self, data: str) -> None:
        """Draw a text at the cursor."""
        cells, cursor = list(map(_find_cell, data)), self.cursor
        ends = cursor.x + len(cells)
        is_plain = not self.charset and self.g0_charset is LAT1_MAP and IRM not in self.mode
        if ends > self.columns or not is_plain or None in cells:
            super().draw(data)
            return
        self.buffer[cursor.y].update(zip(range(cursor.x, ends), cells, strict=True))  # type: ignore[arg-type]  # no None
        cursor.x = ends
        self.dirty.add(cursor.y)


@cache
def _find_cell(char: str) -> Char | None:
    return Char(char) if wcwidth(char) == 1 else None
