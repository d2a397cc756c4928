"""Line API lists: lines are requested when they come into view.

`LineList` is used for requests, hits, events and tools: the owner says how many lines there are and draws each. In a
`PickList` one of several items is chosen, below headings. `TextLines` is a long text that scrolls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar

from msgspec import Struct
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events, work
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from zoea.text.control_characters import reveal
from zoea.tui.commands.keymap import CURSOR_KEYS
from zoea.tui.text_layout import Piece, wrap_characters, wrap_pieces, wrap_words
from zoea.tui.theme.role_styles import styles_of
from zoea.tui.widgets import strip_overlay
from zoea.tui.widgets.clickable_text import put_titles
from zoea.tui.widgets.strip_overlay import clip_strip

LineOf = Callable[[int, int], Sequence[Piece]]
"""Returns the pieces of a line by its place and width in cells; the role `hit` highlights a match."""

_UNDERLINE = Style(underline=True)
_AT_ONCE = 20_000
"""Texts of up to this many characters are wrapped on the event loop, longer ones in a thread."""


class ListMessage(Message):
    """A message of a list about the line under its cursor."""

    def __init__(self, sender: LineList, place: int) -> None:
        super().__init__()
        self.lines = sender
        self.place = place

    @property
    def control(self) -> LineList:
        return self.lines


class LineList(ScrollView, can_focus=True, inherit_bindings=False):
    """Show lines, with or without a cursor; text can be selected.

    Args:
        line_of: Returns the pieces of a line.
        has_cursor: False for a text that is only read; keys scroll it.
        is_title: Says of a place that the cursor passes over it. Without it the cursor goes to every line.
        right_of: Returns the pieces at the right end of a line, which are never cut.
        empty: Text that is shown when there are no lines.
        title, foot: Title and subtitle of the border.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*CURSOR_KEYS, ("enter", "choose")]

    SELECTS: ClassVar[bool] = True
    """Whether the text can be selected with the mouse."""

    class Moved(ListMessage):
        """Sent when the cursor is on another line."""

    class Chosen(ListMessage):
        """Sent on enter or on a double click."""

    class Resized(ListMessage):
        """Sent when the width changed, so that texts can be wrapped again."""

    def __init__(
        self,
        line_of: LineOf,
        *,
        has_cursor: bool = True,
        is_title: Callable[[int], bool] = lambda place: False,
        right_of: Callable[[int], Sequence[Piece]] = lambda place: (),
        empty: str = "",
        title: str = "",
        foot: str = "",
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.caption(title, foot)
        self._line_of = line_of
        self._has_cursor = has_cursor
        self._is_title = is_title
        self._right_of = right_of
        self._empty = empty
        self._width = 0
        self._plain: Style | None = None
        self.count = 0
        self.place = 0

    def caption(self, title: str, foot: str = "") -> None:
        """Set title and subtitle of the border; never markup."""
        put_titles(self, Content(reveal(title)) if title else None, Content(reveal(foot)) if foot else None)

    def show(self, count: int, *, place: int | None = None, empty: str | None = None) -> None:
        """Set the number of lines and redraw all; the cursor stays, or goes to `place`."""
        self.count = count
        if empty is not None:
            self._empty = empty
        self.virtual_size = Size(0, count)
        self.move_to(self.place if place is None else place, follow=place is not None)
        self.refresh()

    def append(self, count: int) -> None:
        """Add lines at the end; a cursor on the last line stays on the last."""
        was_last = self.place >= self.count - 1
        self.count = count
        self.virtual_size = Size(0, count)
        if was_last:
            self.to_end()
        self.refresh()

    @property
    def is_at_end(self) -> bool:
        """Return whether the last line is visible, or has the cursor."""
        return self.place >= self.count - 1 if self._has_cursor else self.scroll_offset.y >= self.max_scroll_y

    @property
    def width(self) -> int:
        """Return the cells of a line; 0 before the first layout."""
        return self.scrollable_content_region.width

    @property
    def leaf(self) -> int:
        return max(1, self.scrollable_content_region.height - 1)

    def to_end(self) -> None:
        self.move_to(self.count - 1)
        self.scroll_to(y=max(0, self.count - self.scrollable_content_region.height), animate=False, force=True)

    def move_to(self, place: int, *, follow: bool = True) -> None:
        """Put the cursor on a line and scroll to it."""
        place = max(0, min(self.count - 1, place))
        if self.count:
            ahead, back = range(place, self.count), range(place, -1, -1)
            ways = (*ahead, *back) if place >= self.place else (*back, *ahead)
            place = next((at for at in ways if not self._is_title(at)), place)
        old, self.place = self.place, place
        if self._has_cursor:
            self.refresh_line(old)
            self.refresh_line(place)
        if follow and self.count:
            self.scroll_to_region(self._shown_with(place), animate=False, force=True, immediate=True)
        if old != place:
            self.post_message(self.Moved(self, place))

    def _shown_with(self, place: int) -> Region:
        """Return the lines that come into view with the cursor."""
        return Region(0, place, max(1, self.size.width), 1)

    def action_move(self, by: int) -> None:
        if self._has_cursor:
            self.move_to(self.place + by)
        else:
            self.scroll_relative(y=by, animate=False)

    def action_edge(self, last: int) -> None:
        if self._has_cursor:
            self.move_to(self.count - 1 if last else 0)
        elif last:
            self.to_end()
        else:
            self.scroll_to(y=0, animate=False)

    def action_leaf(self, by: int) -> None:
        self.action_move(by * self.leaf)

    def action_choose(self) -> None:
        if self.count:
            self.post_message(self.Chosen(self, self.place))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        place = self.count if offset is None else offset.y + self.scroll_offset.y
        if self._has_cursor and place < self.count and not self._is_title(place):
            self.move_to(place)
            if event.chain == 2:
                self.action_choose()

    def on_resize(self, event: events.Resize) -> None:
        self._fit_width()
        if self._has_cursor and self.count:
            self.scroll_to_region(self._shown_with(self.place), animate=False, force=True, immediate=True)
        self.refresh()

    def watch_show_vertical_scrollbar(self) -> None:
        """Fit the width where only the scrollbar came or went. Textual sends no Resize for that."""
        self._fit_width()

    def _fit_width(self) -> None:
        """Notice another width; lines that were wrapped for the old one would be cut."""
        if self.width != self._width:
            self._width = self.width
            self.post_message(self.Resized(self, self.place))

    # Drawing.

    def text_of(self, place: int) -> str:
        """Return a line as text."""
        pieces = (*self._line_of(place, max(1, self.width)), *self._right_of(place))
        return "".join(reveal(text).replace("\n", " ") for text, _ in pieces)

    @property
    def plain(self) -> str:
        """Return all lines as text, at most as many as can be copied."""
        if not self.count:
            return self._empty
        return "\n".join(self.text_of(place) for place in range(min(self.count, strip_overlay.COPY_LINES)))

    def render_lines(self, crop: Region) -> list[Strip]:
        self._plain = self.rich_style  # of all lines: each would ask all widgets above for it
        try:
            return super().render_lines(crop)
        finally:
            self._plain = None

    def render_line(self, y: int) -> Strip:
        width = self.width
        place = y + self.scroll_offset.y
        plain = self.rich_style if self._plain is None else self._plain
        styles = styles_of(self)
        if place >= self.count:
            if place == 0 and self._empty:
                said = Segment(reveal(self._empty), plain + styles.of("quiet"))
                return Strip([said]).adjust_cell_length(width, plain)
            return Strip.blank(width, plain)
        under, over = plain, Style()
        if self._has_cursor and place == self.place and not self._is_title(place):
            over = styles.of("cursor", background=True)
            under = plain + over
            if self.has_focus:
                under += Style(bold=True)
        left, right = (
            [
                Segment(
                    reveal(text).replace("\n", " ").expandtabs(2),
                    under + (styles.of("asking") + _UNDERLINE if role == "hit" else styles.of(role)) + over,
                )
                for text, role in pieces
            ]
            for pieces in (self._line_of(place, width), self._right_of(place))
        )
        line = strip_overlay.highlight_selection(self, Strip(left), place)
        if right:
            room = max(0, width - sum(segment.cell_length for segment in right))
            line = Strip([*clip_strip(line, room).adjust_cell_length(room, under), *right])
        line = clip_strip(line, width).adjust_cell_length(width, under)
        return strip_overlay.place_strip(line, place) if self.SELECTS else line

    # Selection.

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        return strip_overlay.read_selection(selection, self.count, self.text_of)

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()


class PickItem(Struct, frozen=True):
    """Define one line. Without an id it is a heading or a gap, which the cursor skips."""

    pieces: tuple[Piece, ...] = ()
    id: str = ""
    right: tuple[Piece, ...] = ()


class PickList(LineList):
    """Show items; enter or a double click chooses one."""

    SELECTS = False

    class Moved(LineList.Moved):
        """Sent when the cursor is on another item."""

        def __init__(self, sender: PickList, place: int) -> None:
            super().__init__(sender, place)
            self.id = sender.chosen

    class Chosen(LineList.Chosen):
        """Sent on enter or on a double click."""

        def __init__(self, sender: PickList, place: int) -> None:
            super().__init__(sender, place)
            self.id = sender.chosen

    def __init__(self, *, title: str = "", id: str | None = None, classes: str | None = None) -> None:
        super().__init__(
            lambda place, _: self._choices[place].pieces,
            is_title=lambda place: not self._choices[place].id,
            right_of=lambda place: self._choices[place].right,
            title=title,
            id=id,
            classes=classes,
        )
        self._choices: Sequence[PickItem] = ()

    def put(self, choices: Sequence[PickItem], *, on: str = "") -> None:
        """Show these items; the cursor stays on its id, or goes to `on`."""
        if list(choices) == list(self._choices) and not on:
            return
        before, wanted = self.chosen, on or self.chosen
        self._choices = list(choices)
        places = [place for place, choice in enumerate(self._choices) if choice.id and choice.id == wanted]
        with self.prevent(self.Moved):
            self.show(len(self._choices), place=places[0] if places else 0)
        self.refresh(layout=True)
        if self.chosen != before:
            self.post_message(self.Moved(self, self.place))

    @property
    def _choice(self) -> PickItem:
        """The item under the cursor; an empty one where there is none."""
        return self._choices[self.place] if self.place < len(self._choices) else PickItem()

    @property
    def chosen(self) -> str:
        """Return the id under the cursor; empty if there is no item."""
        return self._choice.id

    @property
    def chosen_text(self) -> str:
        """Return the last piece of the line under the cursor."""
        return self._choice.pieces[-1][0].strip() if self.chosen else ""

    @property
    def is_cut(self) -> bool:
        """Return whether the line under the cursor is too wide for the list."""
        width = sum(cell_len(text) for text, _ in (*self._choice.pieces, *self._choice.right))
        return bool(self.chosen) and 0 < self.width < width

    @property
    def ids(self) -> list[str]:
        return [choice.id for choice in self._choices if choice.id]

    def select(self, id: str) -> None:
        """Put the cursor on an item if it is shown."""
        places = [place for place, choice in enumerate(self._choices) if choice.id == id]
        if places:
            self.move_to(places[0])

    def action_move(self, by: int) -> None:
        """Put the cursor on an item, or scroll where other lines or none come first."""
        items = [place for place, choice in enumerate(self._choices) if choice.id]
        wanted = items.index(self.place) + by if self.place in items else 0
        place = items[min(len(items) - 1, max(0, wanted))] if items else self.place
        height, top = self.scrollable_content_region.height, self.scroll_offset.y
        skips_up = bool(items) and self._shown_with(place).y + height < top
        page = height - 1 if place > top + 2 * height - 1 else 1 - height if skips_up else 0
        has_no_more = place == self.place and (place < top + height if by > 0 else place >= top)
        if has_no_more or not items:
            self.scroll_relative(y=by, animate=False, force=True)
        elif height > 1 and page:
            self.scroll_to(y=top + page, animate=False, force=True)
        else:
            self.move_to(place)

    def action_choose(self) -> None:
        if self.chosen:
            super().action_choose()

    def _shown_with(self, place: int) -> Region:
        """Return the line and a heading right above it. For the first item, return all lines above too."""
        above = place - 1 if place and not self._choices[place - 1].id else place
        top = 0 if not any(choice.id for choice in self._choices[:place]) else above
        return Region(0, top, 1, place - top + 1)


class TextLines(LineList):
    """Show a text in full, wrapped once per width. A Static would lay out a megabyte of text for every repaint.

    Args:
        by_words: Break lines between words, for prose; else keep every character, for data.
    """

    def __init__(
        self, *, by_words: bool = False, title: str = "", id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(lambda at, _: self._lines[at], has_cursor=False, title=title, id=id, classes=classes)
        self._by_words = by_words
        self._text: str | Sequence[Sequence[Piece]] = ""
        self._lines: Sequence[Sequence[Piece]] = []

    def put(self, text: str | Sequence[Sequence[Piece]]) -> None:
        """Show this text from its beginning, or these lines. The last piece of each is wrapped."""
        if text != self._text:
            self._text = text
            self.scroll_to(0, 0, animate=False)
            if len(text) > _AT_ONCE:
                self._take([])  # until it is wrapped: what stood here belongs to something else
            self._wrap()

    @property
    def plain(self) -> str:
        """Return the wrapped text."""
        return "\n".join("".join(text for text, _ in line) for line in self._lines)

    @property
    def is_laid_out(self) -> bool:
        """Whether the text is on the screen."""
        return bool(self._lines) or not self._text

    @property
    def lines_below(self) -> int:
        """Return how many lines follow below the visible ones. Those that a small screen cuts off count too."""
        visible = self.screen.find_widget(self).visible_region.intersection(self.scrollable_content_region)
        return max(0, len(self._lines) - self.scroll_offset.y - visible.height)

    def _fit_width(self) -> None:
        before = self._width
        super()._fit_width()
        if self._width != before:
            self._wrap()

    def _wrap(self) -> None:
        if self.width <= 0:
            return
        if len(self._text) <= _AT_ONCE:
            self._take(self._wrapped(self._text, self.width))
        else:
            self._wrap_aside(self._text, self.width)

    @work(exclusive=True, group="wrap")
    async def _wrap_aside(self, text: str | Sequence[Sequence[Piece]], width: int) -> None:
        lines = await asyncio.to_thread(self._wrapped, text, width)
        if text == self._text and width == self.width:
            self._take(lines)

    def _wrapped(self, text: str | Sequence[Sequence[Piece]], width: int) -> Sequence[Sequence[Piece]]:
        if not isinstance(text, str):
            return [line for pieces in text for line in wrap_pieces(pieces, width)]
        lines = wrap_words(reveal(text), width) if self._by_words else wrap_characters(text, width)
        return [((line, ""),) for line in lines]

    def _take(self, lines: Sequence[Sequence[Piece]]) -> None:
        self._lines = lines
        self.show(len(lines))
