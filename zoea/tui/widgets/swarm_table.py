"""Swarm table in the Line API: 10,000 rows scroll smoothly, changed rows are redrawn.

As a hive it shows one cell a mysis instead of one row, with the same cursor, order and filter.
A list of widgets takes seconds to mount 1,000 rows; a DataTable uses most of a core at 1,000 updates a second.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Self, cast

from rich.segment import Segment
from rich.style import Style
from textual import events, work
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from zoea.model.values import MysisView
from zoea.text.control_characters import one_line
from zoea.tui.state.worktree_access import FileCounts
from zoea.tui.swarm_list.hive_layout import CELL, HiveCell, HiveGrouping, HiveLayout, HiveLine, group_of, hive_key
from zoea.tui.swarm_list.mysis_row import (
    NAME_MAX,
    NAME_MIN,
    RowColumns,
    TableRow,
    build_row,
    describe_activity,
    format_time,
    status_text,
)
from zoea.tui.swarm_list.row_filter import RowFilter
from zoea.tui.swarm_list.row_order import RowOrder
from zoea.tui.text_layout import Piece, fit_text, wrap_words
from zoea.tui.theme.role_styles import styles_of
from zoea.tui.widgets import strip_overlay

if TYPE_CHECKING:
    from zoea.tui.state.cockpit import Cockpit

_DRAWN_KEPT = 500


class SwarmTable(ScrollView, can_focus=True, inherit_bindings=False):
    """Show one row per mysis, in order of creation or of urgency.

    Args:
        row_of: Returns the row of a view, with marks, sparkline, rate and time.
        cell_of: Returns the cell of a mysis by its id.
        glyphs: The theme's glyphs by name.
        order: How the rows are sorted.
    """

    class CursorMoved(Message):
        """Sent when the cursor is on another mysis, or on none."""

    class Scrolled(Message):
        """Sent when other rows are visible."""

    class Sized(Message):
        """Sent when the size changed."""

    class Chosen(Message):
        """Sent on a double click."""

    def __init__(
        self,
        row_of: Callable[[MysisView], TableRow],
        cell_of: Callable[[int], HiveCell],
        glyphs: dict[str, str],
        order: RowOrder,
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._row_of = row_of
        self._cell_of = cell_of
        self.grouping: HiveGrouping | None = None
        """What the hive is grouped by; None while the table is shown."""
        self._hive = HiveLayout((), (), ())
        self._groups: dict[int, str] = {}
        self._cells_drawn: tuple[object, ...] = ()
        self._glyphs = glyphs
        self._all: dict[int, MysisView] = {}
        self._shown: list[int] = []
        self._places: dict[int, int] = {}
        self._cursor = 0
        self._filter = RowFilter()
        self.order = order
        self._longest = NAME_MIN
        self._counts = FileCounts()
        self._drawn: dict[int, list[Piece]] = {}
        self._built: dict[int, list[Piece]] = {}
        """Rows that the last tick built for the next frame; empty once something else changes."""
        self._shared: tuple[Style, RowColumns] | None = None
        """What all lines of a frame have in common, while it is drawn."""

    # Content and state.

    def show(self, views: list[MysisView], changed: frozenset[int] | None = None) -> None:
        """Show these rows; with `changed`, redraw only the lines of those ids."""
        before, known = self._shown, self._all
        self._all = {view.id: view for view in views}
        come_or_gone = len(known) != len(self._all) or not (changed or set()) <= known.keys()
        may_move = bool(self._filter) or self.order.attention_first
        if changed is None or come_or_gone or may_move or self._has_regrouped(changed):
            self._longest = min(NAME_MAX, max((len(view.name) for view in views), default=NAME_MIN))
            self._arrange()
            if changed is None or before != self._shown:
                self._resize()
                return
        first, height = self.scroll_offset.y, self.size.height
        for mysis_id in changed:
            line = self._line_of(self._places[mysis_id]) if mysis_id in self._places else -1
            if 0 <= line - first < height:
                self._refresh_place(self._places[mysis_id])

    def _has_regrouped(self, changed: frozenset[int]) -> bool:
        """Return whether a cell of the hive belongs to another group now."""
        grouping = self.grouping
        if grouping is None:
            return False
        return any(self._groups.get(each) != group_of(self._all[each], grouping) for each in changed & self._all.keys())

    # The hive.

    def group_by(self, grouping: HiveGrouping | None) -> None:
        """Show the hive in groups, or the table for None. The cursor stays on its mysis."""
        self.grouping = grouping
        self._arrange()
        self._resize()
        self.move_to(self._cursor)

    def _line_of(self, place: int) -> int:
        return place if self.grouping is None else self._hive.line_of(place)

    def _refresh_place(self, place: int) -> None:
        line = self._line_of(place)
        for part in range(1 if self.grouping is None else self._hive.height):
            self.refresh_line(line + part)

    def move_sideways(self, by: int) -> None:
        """Move the cursor by cells of the hive. Rows of the table have no neighbours at their sides."""
        if self.grouping is not None:
            self.move_to(self._cursor + by)

    def set_filter(self, wanted: RowFilter) -> None:
        """Show only the rows that match."""
        self._filter = wanted
        self._arrange()
        self._resize()

    def sort_by(self, order: RowOrder) -> None:
        """Show the rows in another order. The cursor stays on its mysis."""
        self.order = order
        self._arrange()
        self._resize()

    def set_glyphs(self, glyphs: dict[str, str]) -> None:
        self._glyphs = glyphs
        self.refresh()

    def tick(self) -> None:
        """Redraw visible lines with ages, waits or brightness that changed."""
        self._count_files()
        first = self.scroll_offset.y
        if self.grouping is None and self.order.is_moving:
            before = self._shown
            self._arrange()  # here and not with each change, so that a row moves at most once a second
            if before != self._shown:
                self.refresh()
        if self.grouping is not None:
            cells = tuple(map(self._cell_of, self._shown))
            if cells != self._cells_drawn or self._hive.height > 1:  # larger cells have times
                self._cells_drawn = cells
                self.refresh()
            return
        columns = self.columns
        rows = {
            place: self._pieces(place, columns) for place in range(first, min(self.count, first + self.size.height))
        }
        changed = {place: pieces for place, pieces in rows.items() if pieces != self._drawn.get(place)}
        for place in changed:
            self.refresh_line(place)
        self._built = changed

    def files_of(self, view: MysisView) -> str:
        """Return the lines and files that a mysis changed in its worktree, as counted last."""
        return self._counts.texts.get(view.name, "")

    @work(exit_on_error=False, group="files")
    async def _count_files(self) -> None:
        """Count what myses changed in their worktrees. The column is there while one of them did."""
        if await self._counts.update(cast("Cockpit", self.app)) and self.is_mounted:
            self.refresh()
            self.post_message(self.Sized())

    @property
    def columns(self) -> RowColumns:
        """Return the column widths in use."""
        return RowColumns.of(self.scrollable_content_region.width, self._longest, has_files=bool(self._counts.texts))

    @property
    def cursor(self) -> MysisView | None:
        return self._all.get(self._shown[self._cursor]) if self._shown else None

    @property
    def count(self) -> int:
        """Return the number of rows shown."""
        return len(self._shown)

    @property
    def shown(self) -> list[MysisView]:
        return [self._all[mysis_id] for mysis_id in self._shown]

    @property
    def in_sight(self) -> set[int]:
        """Return the ids of the visible rows."""
        first, height = self.scroll_offset.y, self.scrollable_content_region.height
        if self.grouping is None:
            return set(self._shown[first : first + height])
        lines = self._hive.lines[first : first + height]
        return {mysis_id for line in lines for mysis_id in self._shown[line.first : line.end]}

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Scrolled())

    def select(self, mysis_id: int) -> None:
        """Put the cursor on a mysis if it is shown."""
        if mysis_id in self._places:
            self.move_to(self._places[mysis_id])

    def move(self, by: int) -> None:
        """Move the cursor by lines."""
        self.move_to(self._cursor + by if self.grouping is None else self._hive.place_beyond(self._cursor, by))

    def move_on(self) -> None:
        """Move the cursor to the next mysis."""
        self.move_to(self._cursor + 1)

    def move_to(self, place: int) -> None:
        """Put the cursor on a row and scroll to it."""
        if not self._shown:
            return
        place = min(len(self._shown) - 1, max(0, place))
        old, self._cursor = self._cursor, place
        line = self._line_of(place)
        self._refresh_place(old)
        self._refresh_place(place)
        lines = 1 if self.grouping is None else self._hive.height
        self.scroll_to_region(Region(0, line, max(1, self.size.width), lines), animate=False, force=True)
        if old != place:
            self.post_message(self.CursorMoved())

    @property
    def page(self) -> int:
        return max(1, self.scrollable_content_region.height - 1)

    # Drawing.

    def _arrange(self) -> None:
        kept = self.cursor.id if self._shown and self.cursor else None
        views = self._filter.select(self._all.values()) if self._filter else list(self._all.values())
        grouping = self.grouping
        if grouping is not None:
            keyed = [(hive_key(view, grouping, attention_first=self.order.attention_first), view) for view in views]
            keyed.sort(key=itemgetter(0))
            views, groups = [view for _, view in keyed], [key[1] for key, _ in keyed]
            self._groups = {view.id: key[1] for key, view in keyed}
            room = self.scrollable_content_region
            self._hive = HiveLayout.fit(groups, room.width, room.height)
        else:
            self.order.sort(views)
        self._shown = [view.id for view in views]
        self._places = {mysis_id: place for place, mysis_id in enumerate(self._shown)}
        if kept in self._places:
            self._cursor = self._places[kept]
        else:
            self._cursor = min(self._cursor, max(0, len(self._shown) - 1))
            self.post_message(self.CursorMoved())

    def _resize(self) -> None:
        self.virtual_size = Size(0, len(self._shown) if self.grouping is None else len(self._hive.lines))
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        if self.grouping is not None:
            self._arrange()
            self._resize()
        self.refresh()
        self.post_message(self.Sized())

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        self._built = {}
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def render_lines(self, crop: Region) -> list[Strip]:
        self._shared = self.rich_style, self.columns
        try:
            return super().render_lines(crop)
        finally:
            self._shared = None

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        place = y + self.scroll_offset.y
        plain, columns = self._shared or (self.rich_style, self.columns)
        styles = styles_of(self)
        if self.grouping is not None:
            return self._render_cells(place, width, plain)
        if place >= len(self._shown):
            return Strip.blank(width, plain)
        pieces = self._built.get(place) or self._pieces(place, columns)
        if len(self._drawn) > _DRAWN_KEPT:
            self._drawn.clear()
        self._drawn[place] = pieces
        under = Style()
        if place == self._cursor:
            under = styles.of("cursor", background=True)
            if self.has_focus:
                under += Style(bold=True)
        segments = [Segment(text, plain + styles.of(role) + under) for text, role in pieces]
        line = strip_overlay.highlight_selection(self, Strip(segments), place)
        return strip_overlay.place_strip(line.adjust_cell_length(width, plain + under), place)

    def _render_cells(self, at: int, width: int, plain: Style) -> Strip:
        """Draw a line of the hive: the heading of a group, or its cells."""
        styles = styles_of(self)
        if at >= len(self._hive.lines):
            return Strip.blank(width, plain)
        line = self._hive.lines[at]
        if line.title:
            return Strip([Segment(line.title, plain + styles.of("quiet"))]).adjust_cell_length(width, plain)
        if self._hive.cell > CELL:
            return self._render_large_cells(line, width, plain)
        # Equal neighbours share a segment, because each one costs the terminal its style.
        runs: list[tuple[str, Style]] = []
        for place in range(line.first, line.end):
            view = self._all[self._shown[place]]
            (level, is_marked), role = self._cell_of(view.id), str(view.status)
            glyph, style = self._glyphs.get(role, "?")[:1], plain + styles.shade(role, level)
            if place == self._cursor:
                style = plain + styles.of("cursor", background=True) + Style(bold=True, reverse=self.has_focus)
                style += styles.shade(role, level)
            if is_marked:
                runs += [("▌", plain + styles.of("asking")), (glyph, style)]
            elif place == self._cursor:
                runs += [(" ", plain), (glyph, style)]
            elif runs and runs[-1][1] is style:
                runs[-1] = (f"{runs[-1][0]} {glyph}", style)
            else:
                runs.append((f" {glyph}", style))
        return Strip([Segment(text, style) for text, style in runs]).adjust_cell_length(width, plain)

    def _render_large_cells(self, line: HiveLine, width: int, plain: Style) -> Strip:
        styles = styles_of(self)
        segments: list[Segment] = []
        for place in range(line.first, line.end):
            view = self._all[self._shown[place]]
            (level, is_marked), role = self._cell_of(view.id), str(view.status)
            under = Style()
            if place == self._cursor:
                under = styles.of("cursor", background=True) + Style(bold=self.has_focus)
            mark, text = "▌" if is_marked else " ", self._write_cell(view, line.part)
            style = styles.shade(role, level) if line.part == 0 else styles.of("" if line.part > 1 else "quiet")
            segments += [Segment(mark, plain + styles.of("asking")), Segment(text, plain + style + under)]
            segments.append(Segment(" ", plain))
        return Strip(segments).adjust_cell_length(width, plain)

    def _write_cell(self, view: MysisView, part: int) -> str:
        """Return a line of a large cell, padded to its width. The width is without the mark and the gap."""
        room = self._hive.cell - 2
        if part == 0:
            return fit_text(f"{self._glyphs.get(str(view.status), '?')[:1]} {one_line(view.name)}", room)
        if part > 1:
            shown = self._hive.height - 2
            lines = list(islice(wrap_words(status_text(view), room - 2), shown + 1))
            if len(lines) > shown:
                lines[shown - 1] += f" {lines.pop()}"  # which is cut
            return fit_text(f"  {lines[part - 2] if part - 2 < len(lines) else ''}", room)
        row = self._row_of(view)
        words = (describe_activity(view) or str(view.status), format_time(view, row.now, row.since))
        return fit_text(f"  {' '.join(words)}", room)

    def _cells_text(self, at: int) -> str:
        line = self._hive.lines[at]
        if self._hive.cell > CELL and not line.title:
            return "".join(
                f" {self._write_cell(self._all[each], line.part)} " for each in self._shown[line.first : line.end]
            )
        glyphs = (self._glyphs.get(str(self._all[each].status), "?") for each in self._shown[line.first : line.end])
        return line.title or "".join(f" {glyph}" for glyph in glyphs)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        if self.grouping is not None:
            return strip_overlay.read_selection(selection, len(self._hive.lines), self._cells_text)
        return strip_overlay.read_selection(
            selection, self.count, lambda at: "".join(text for text, _ in self._pieces(at, self.columns))
        )

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def _pieces(self, place: int, columns: RowColumns) -> list[Piece]:
        return build_row(self._row_of(self._all[self._shown[place]]), columns, self._glyphs, self.order.column)

    # The mouse.

    def on_click(self, event: events.Click) -> None:
        line = event.y + self.scroll_offset.y
        place = line if self.grouping is None else self._hive.place_at(line, event.x)
        if place is not None and place < len(self._shown):
            self.move_to(place)
            if event.chain == 2 and self.cursor is not None:
                self.post_message(self.Chosen())
