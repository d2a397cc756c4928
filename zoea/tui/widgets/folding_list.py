"""List of foldable items: messages of a request, tools with their schemas.

A text is wrapped when it is unfolded, a large one in a thread, so that a folded megabyte costs nothing.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import islice

from msgspec import Struct
from textual import work

from zoea.text.control_characters import reveal
from zoea.tui.conversation.blocks import Symbols
from zoea.tui.text_layout import Piece, spread_pieces, wrap_words
from zoea.tui.widgets.line_list import LineList

INDENT = 2
_ON_THE_LOOP = 40_000
"""Texts of up to this many characters are wrapped on the event loop, longer ones in a thread."""


class FoldingItem(Struct, frozen=True):
    """Define one item.

    Args:
        head: First line, left.
        right: First line, right.
        body: Texts below it, each in its role.
        brief: Lines of the body that are shown while it is folded.
    """

    head: Sequence[Piece]
    right: Sequence[Piece] = ()
    body: Sequence[Piece] = ()
    brief: int = 2


class _Row(Struct, frozen=True):
    item: int
    text: str = ""
    role: str = ""
    is_head: bool = False


class FoldingList(LineList):
    """Show items; enter folds or unfolds the one under the cursor."""

    def __init__(self, *, id: str, classes: str | None = None, title: str = "", empty: str = "") -> None:
        super().__init__(self._draw, id=id, classes=classes, title=title, empty=empty)
        self.is_verbose = False
        self._items: Sequence[FoldingItem] = ()
        self._open: set[int] = set()
        self._rows: list[_Row] = []
        self._arranged = 0

    def put(self, items: Sequence[FoldingItem], *, empty: str = "") -> None:
        """Show these items, folded unless everything is shown whole, from the first on."""
        self._items = items
        self._open = set()
        self._empty = empty
        self.place = 0
        self._rows, self.count = [], 0  # lines of the items before, until the new ones are arranged
        self._arrange(place=0)

    @property
    def item(self) -> int | None:
        """The place of the item under the cursor; None where there is none."""
        return self._rows[self.place].item if self.place < len(self._rows) else None

    def toggle(self) -> None:
        """Fold or unfold the item under the cursor."""
        at = self.item
        if at is not None:
            self._open ^= {at}
            self._arrange(item=at)

    def toggle_all(self) -> None:
        """Everything whole, or everything folded."""
        at = self.item
        self.is_verbose = not self.is_verbose
        self._open = set()
        self._arrange(item=at)

    def action_choose(self) -> None:
        self.toggle()

    def on_line_list_resized(self, event: LineList.Resized) -> None:
        if event.lines is self:
            self._arrange(item=self.item)

    def is_open(self, item: int) -> bool:
        return (item in self._open) != self.is_verbose

    def _arrange(self, *, place: int | None = None, item: int | None = None) -> None:
        """Break everything that is shown into lines, for the width there is."""
        width = self.width
        if width <= 0:
            return
        self._arranged += 1
        shown = [self.is_open(at) for at in range(len(self._items))]
        size = sum(len(text) for each, whole in zip(self._items, shown, strict=True) if whole for text, _ in each.body)
        if size <= _ON_THE_LOOP:
            self._take(_rows(self._items, shown, width), place, item)
        else:
            self._arrange_aside(self._arranged, shown, width, place, item)

    @work(exit_on_error=False, group="arrange")
    async def _arrange_aside(
        self, number: int, shown: list[bool], width: int, place: int | None, item: int | None
    ) -> None:
        rows = await asyncio.to_thread(_rows, self._items, shown, width)
        if number == self._arranged:
            self._take(rows, place, item)

    def _take(self, rows: list[_Row], place: int | None, item: int | None) -> None:
        self._rows = rows
        if item is None:
            self.show(len(rows), place=place)
            return
        first, end = (find(rows, item, key=lambda row: row.item) for find in (bisect_left, bisect_right))
        self.show(len(rows), place=first)
        # What unfolded below the last line comes into view, as far as its head stays there.
        least = min(first, end - self.scrollable_content_region.height)
        if self.scroll_offset.y < least:
            self.scroll_to(y=least, animate=False, force=True)

    def _draw(self, place: int, width: int) -> list[Piece]:
        row = self._rows[place]
        if not row.is_head:
            return [(" " * INDENT, ""), (row.text, row.role)]
        item = self._items[row.item]
        mark = Symbols.open if self.is_open(row.item) else Symbols.folded
        return spread_pieces([(f"{mark} ", "quiet"), *item.head], item.right, width)


def _rows(items: Sequence[FoldingItem], shown: Sequence[bool], width: int) -> list[_Row]:
    rows: list[_Row] = []
    for at, item in enumerate(items):
        rows.append(_Row(at, is_head=True))
        limit = None if shown[at] else item.brief
        left = limit
        for text, role in item.body:
            if left is not None and left <= 0:
                break
            # A folded item wraps only the beginning of its text.
            seen = text if left is None else text[: width * (left + 2)]
            lines = list(islice(wrap_words(reveal(seen), width - INDENT), left))
            rows += [_Row(at, line, role) for line in lines]
            left = None if left is None else left - len(lines)
        if shown[at] and at < len(items) - 1:
            rows.append(_Row(at))
    return rows
