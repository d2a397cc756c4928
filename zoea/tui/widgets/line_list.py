"""Line API list: lines are requested when they come into view.

Used for requests, hits, events, tools and long texts. The owner says how many lines there are and draws each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from zoea.text.control_characters import strip
from zoea.tui.text_layout import Piece
from zoea.tui.theme.role_styles import styles_of
from zoea.tui.widgets import strip_overlay
from zoea.tui.widgets.strip_overlay import clip_strip

LineOf = Callable[[int, int], Sequence[Piece]]
"""Returns the pieces of a line by its place and width in cells; the role `hit` highlights a match."""

_UNDERLINE = Style(underline=True)


class LineList(ScrollView, can_focus=True, inherit_bindings=False):
    """Show lines, with or without a cursor; text can be selected.

    Args:
        line_of: Returns the pieces of a line.
        has_cursor: False for a text that is only read; keys scroll it.
        is_title: Says of a place that the cursor passes over it. Without it the cursor goes to every line.
        empty: Text that is shown when there are no lines.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", show=False),
        Binding("k,up", "move(-1)", show=False),
        Binding("g,home", "edge(0)", show=False),
        Binding("G,end", "edge(1)", show=False),
        Binding("pagedown", "leaf(1)", show=False),
        Binding("pageup", "leaf(-1)", show=False),
        Binding("enter", "choose", show=False),
    ]

    class Moved(Message):
        """Sent when the cursor is on another line."""

        def __init__(self, sender: LineList, place: int) -> None:
            super().__init__()
            self.lines = sender
            self.place = place

        @property
        def control(self) -> LineList:
            return self.lines

    class Chosen(Message):
        """Sent on enter or on a double click."""

        def __init__(self, sender: LineList, place: int) -> None:
            super().__init__()
            self.lines = sender
            self.place = place

        @property
        def control(self) -> LineList:
            return self.lines

    class Resized(Message):
        """Sent when the width changed, so that texts can be wrapped again."""

        def __init__(self, sender: LineList, width: int) -> None:
            super().__init__()
            self.lines = sender
            self.width = width

        @property
        def control(self) -> LineList:
            return self.lines

    def __init__(
        self,
        line_of: LineOf,
        *,
        has_cursor: bool = True,
        is_title: Callable[[int], bool] | None = None,
        empty: str = "",
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._line_of = line_of
        self._has_cursor = has_cursor
        self._is_title = is_title
        self._empty = empty
        self._width = 0
        self.count = 0
        self.place = 0

    def caption(self, title: str, foot: str = "") -> None:
        """Set title and subtitle of the border; never markup."""
        self.border_title = Content(strip(title)) if title else None
        self.border_subtitle = Content(strip(foot)) if foot else None

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
        if self._is_title is not None and self.count:
            ahead, back = range(place, self.count), range(place, -1, -1)
            ways = (*ahead, *back) if place >= self.place else (*back, *ahead)
            place = next((at for at in ways if not self._is_title(at)), place)
        old, self.place = self.place, place
        if self._has_cursor:
            self.refresh_line(old)
            self.refresh_line(place)
        if follow and self.count:
            region = Region(0, place, max(1, self.size.width), 1)
            self.scroll_to_region(region, animate=False, force=True, immediate=True)
        if old != place:
            self.post_message(self.Moved(self, place))

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
        if offset is None or offset.y + self.scroll_offset.y >= self.count:
            return
        if self._has_cursor:
            self.move_to(offset.y + self.scroll_offset.y)
            if event.chain == 2:
                self.action_choose()

    def on_resize(self, event: events.Resize) -> None:
        if self.width != self._width:
            self._width = self.width
            self.post_message(self.Resized(self, self._width))
        if self._has_cursor and self.count:
            self.scroll_to_region(Region(0, self.place, 1, 1), animate=False, force=True, immediate=True)
        self.refresh()

    def restyle(self) -> None:
        """Redraw in the current theme."""
        self.refresh()

    # Drawing.

    def text_of(self, place: int) -> str:
        """Return a line as text."""
        return "".join(strip(text).replace("\n", " ") for text, _ in self._line_of(place, max(1, self.width)))

    @property
    def plain(self) -> str:
        """Return all lines as text, at most as many as can be copied."""
        if not self.count:
            return self._empty
        return "\n".join(self.text_of(place) for place in range(min(self.count, strip_overlay.COPY_LINES)))

    def render_line(self, y: int) -> Strip:
        width = self.width
        place = y + self.scroll_offset.y
        plain = self.rich_style
        styles = styles_of(self)
        if place >= self.count:
            if place == 0 and self._empty:
                said = Segment(strip(self._empty), plain + styles.of("quiet"))
                return Strip([said]).adjust_cell_length(width, plain)
            return Strip.blank(width, plain)
        under = plain
        if self._has_cursor and place == self.place:
            under = plain + styles.of("cursor", background=True)
            if self.has_focus:
                under += Style(bold=True)
        segments = []
        for text, role in self._line_of(place, width):
            style = styles.of("asking") + _UNDERLINE if role == "hit" else styles.of(role)
            segments.append(Segment(strip(text).replace("\n", " ").expandtabs(2), under + style))
        line = strip_overlay.highlight_selection(self, Strip(segments), place)
        return clip_strip(line, width).adjust_cell_length(width, under).apply_offsets(0, place)

    # Selection.

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        return strip_overlay.read_selection(selection, self.count, self.text_of)

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()
