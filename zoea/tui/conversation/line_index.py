"""Index of painted lines: which line belongs to which block. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct
from textual.selection import Selection
from textual.strip import Strip

from zoea.tui.conversation.block_painter import BODY
from zoea.tui.conversation.blocks import BlockKind, ConversationBlock


class LinePosition(Struct, frozen=True):
    """Name a line by block and offset, so that it survives a new layout."""

    key: str
    line: int = 0


class LineIndex:
    """Map lines to blocks; immutable, a change builds a new index."""

    def __init__(self, blocks: Sequence[ConversationBlock] = (), painted: Sequence[tuple[Strip, ...]] = ()) -> None:
        self.blocks = tuple(blocks)
        self._painted = tuple(painted)
        self._starts: list[int] = []
        self.places = {block.key: place for place, block in enumerate(self.blocks)}
        total = 0
        for strips in self._painted:
            self._starts.append(total)
            total += len(strips)
        self.height = total

    def strip(self, line: int) -> Strip | None:
        """Return the strip of a line; None if there is no such line."""
        if not 0 <= line < self.height:
            return None
        place = self._place(line)
        return self._painted[place][line - self._starts[place]]

    def block_at(self, line: int) -> ConversationBlock | None:
        """Return the block of a line; the last block for lines after the end."""
        if not self.blocks:
            return None
        return self.blocks[self._place(min(max(0, line), self.height - 1))]

    def span(self, key: str) -> tuple[int, int] | None:
        """Return first line and end line of a block without its blank line. None if unknown."""
        place = self.places.get(key)
        if place is None:
            return None
        start = self._starts[place]
        gap = 1 if self.blocks[place].has_gap else 0
        return start + gap, start + len(self._painted[place])

    def strips(self, key: str) -> tuple[Strip, ...]:
        place = self.places.get(key)
        return () if place is None else self._painted[place]

    def spot(self, line: int) -> LinePosition | None:
        """Return the position of a line; None if the index is empty."""
        if not self.blocks:
            return None
        line = min(max(0, line), self.height - 1)
        place = self._place(line)
        return LinePosition(self.blocks[place].key, line - self._starts[place])

    def line_of(self, spot: LinePosition) -> int | None:
        """Return the line of a position, or the nearest in a block that became shorter."""
        place = self.places.get(spot.key)
        if place is None:
            return None
        return self._starts[place] + min(spot.line, max(0, len(self._painted[place]) - 1))

    def line_like(self, before: LineIndex, line: int) -> int:
        """Return the line here that shows what `line` showed in the index `before`.

        If its block is gone, the nearest block above it is used, then the nearest below.
        """
        spot = before.spot(line)
        if spot is None:
            return line
        if (here := self.line_of(spot)) is not None:
            return here
        place = before.places[spot.key]
        for block in (*reversed(before.blocks[:place]), *before.blocks[place:]):
            if (here := self.line_of(LinePosition(block.key))) is not None:
                return here
        return line

    def turn_beside(self, key: str, by: int) -> tuple[str, int] | None:
        """Return key and line of the turn before or after a block. None if there is none."""
        heads = [block for block in self.blocks if block.kind is BlockKind.TURN]
        starts = [(self.span(block.key) or (0, 0))[0] for block in heads]
        at = (self.span(key) or (0, 0))[0]
        is_inside = key in self.places and self.blocks[self.places[key]].kind is not BlockKind.TURN
        if by < 0:
            at += is_inside
            place = next((index for index in range(len(heads) - 1, -1, -1) if starts[index] < at), None)
        else:
            place = next((index for index in range(len(heads)) if starts[index] > at), None)
        return None if place is None else (heads[place].key, starts[place])

    def picked(self, selection: Selection, base: int) -> str:
        """Return the selected text without indentation; `base` is the number of the first line."""
        first = 0 if selection.start is None else max(0, selection.start.y - base)
        last = self.height - 1 if selection.end is None else min(self.height - 1, selection.end.y - base)
        picked: list[str] = []
        for line in range(first, last + 1):
            strip, span = self.strip(line), selection.get_span(line + base)
            if strip is None or span is None:
                continue
            start, end = span
            text = strip.text[start : None if end < 0 else end].rstrip()
            indent = min(BODY, len(text) - len(text.lstrip(" "))) if start == 0 else 0
            picked.append(text[indent:])
        return "\n".join(picked)

    def _place(self, line: int) -> int:
        return bisect_right(self._starts, line) - 1
