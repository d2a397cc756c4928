"""List of lines to choose from, with headings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from zoea.text.control_characters import strip
from zoea.tui.text_layout import Piece
from zoea.tui.theme.role_styles import styles_of
from zoea.tui.widgets.strip_overlay import clip_strip


class PickItem(Struct, frozen=True):
    """Define one line. Without an id it is a heading or a gap, which the cursor skips."""

    pieces: tuple[Piece, ...] = ()
    id: str = ""
    right: tuple[Piece, ...] = ()


class PickList(ScrollView, can_focus=True):
    """Show items; enter or a double click chooses one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("home,g", "edge(0)", show=False),
        Binding("end,G", "edge(1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("enter", "choose", show=False),
    ]

    class Highlighted(Message):
        """Sent when the cursor is on another item."""

        def __init__(self, picker: PickList, id: str) -> None:
            super().__init__()
            self.picker = picker
            self.id = id

        @property
        def control(self) -> PickList:
            return self.picker

    class Chosen(Highlighted):
        """Sent on enter or on a double click."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._choices: Sequence[PickItem] = ()
        self._places: list[int] = []
        self._cursor = 0

    def put(self, choices: Sequence[PickItem], *, on: str = "") -> None:
        """Show these items; the cursor stays on its id, or goes to `on`."""
        if list(choices) == list(self._choices) and not on:
            return
        wanted = on or self.chosen
        before = self.chosen
        self._choices = list(choices)
        self._places = [place for place, choice in enumerate(self._choices) if choice.id]
        ids = [self._choices[place].id for place in self._places]
        self._cursor = ids.index(wanted) if wanted in ids else 0
        self.virtual_size = Size(0, len(self._choices))
        self._show_cursor()
        self.refresh(layout=True)
        if self.chosen != before:
            self.post_message(self.Highlighted(self, self.chosen))

    @property
    def chosen(self) -> str:
        """Return the id under the cursor; empty if there is no item."""
        return self._choices[self._places[self._cursor]].id if self._places else ""

    @property
    def chosen_text(self) -> str:
        """Return the last piece of the line under the cursor."""
        choice = self._choices[self._places[self._cursor]] if self._places else PickItem()
        return choice.pieces[-1][0].strip() if choice.pieces else ""

    @property
    def is_cut(self) -> bool:
        """Return whether the line under the cursor is too wide for the list."""
        if not self._places:
            return False
        choice = self._choices[self._places[self._cursor]]
        width = sum(cell_len(text) for text, _ in (*choice.pieces, *choice.right))
        return 0 < self.scrollable_content_region.width < width

    @property
    def ids(self) -> list[str]:
        return [self._choices[place].id for place in self._places]

    @property
    def plain(self) -> str:
        """Return all lines as text, for tests and screen readers."""
        return "\n".join(
            "".join(text for text, _ in (*choice.pieces, *choice.right)).rstrip() for choice in self._choices
        )

    def select(self, id: str) -> None:
        """Put the cursor on an item if it is shown."""
        if id in self.ids:
            self._move_to(self.ids.index(id))

    def action_move(self, by: int) -> None:
        self._go_towards(self._cursor + by)

    def action_edge(self, last: int) -> None:
        self._move_to(len(self._places) - 1 if last else 0)

    def action_page(self, by: int) -> None:
        self._go_towards(self._cursor + by * max(1, self.scrollable_content_region.height - 1))

    def action_choose(self) -> None:
        if self.chosen:
            self.post_message(self.Chosen(self, self.chosen))

    def _go_towards(self, cursor: int) -> None:
        """Put the cursor on an item, or scroll a page where lines before it, which have no item, were never in view."""
        height, top = self.scrollable_content_region.height, self.scroll_offset.y
        if height > 1 and self._places:
            place = self._places[min(len(self._places) - 1, max(0, cursor))]
            page = height - 1 if place > top + 2 * height - 1 else 1 - height if place < top - height else 0
            if page:
                self.scroll_to(y=top + page, animate=False, force=True)
                return
        self._move_to(cursor)

    def _move_to(self, cursor: int) -> None:
        if not self._places:
            return
        cursor = min(len(self._places) - 1, max(0, cursor))
        if cursor == self._cursor:
            self._show_cursor()
            return
        self._cursor = cursor
        self.refresh()
        self._show_cursor()
        self.post_message(self.Highlighted(self, self.chosen))

    def _show_cursor(self) -> None:
        if not self._places or not self.is_mounted:
            return
        place = self._places[self._cursor]
        # Show the heading above the first item of a group too.
        top = place - 1 if place and not self._choices[place - 1].id else place
        if self._cursor == 0:
            top = 0
        self.scroll_to_region(Region(0, top, 1, place - top + 1), animate=False, force=True)

    def on_resize(self, event: events.Resize) -> None:
        self._show_cursor()
        self.refresh()

    def on_focus(self, event: events.Focus) -> None:
        self.refresh()

    def on_blur(self, event: events.Blur) -> None:
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        place = event.y - self.gutter.top + self.scroll_offset.y
        if place in self._places:
            self._move_to(self._places.index(place))
            if event.chain == 2:
                self.action_choose()

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        place = y + self.scroll_offset.y
        plain = self.rich_style
        if place >= len(self._choices):
            return Strip.blank(width, plain)
        choice = self._choices[place]
        styles = styles_of(self)
        under = Style()
        if self._places and place == self._places[self._cursor]:
            under = styles.of("cursor", background=True)
            if self.has_focus:
                under += Style(bold=True)
        right = [Segment(strip(text), plain + styles.of(role) + under) for text, role in choice.right]
        room = width - sum(cell_len(segment.text) for segment in right)
        left = [Segment(strip(text), plain + styles.of(role) + under) for text, role in choice.pieces]
        line = clip_strip(Strip(left), room).adjust_cell_length(max(0, room), plain + under)
        return Strip([*line, *right]).adjust_cell_length(width, plain + under)
