"""The dashboard: swarm table, detail, myses that need the person, broadcasts and the prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from msgspec.structs import replace
from textual import events, getters, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.geometry import Size

from zoea.model.status import StatusWord
from zoea.model.values import Event, MysisView, ReceiptLine
from zoea.queries.broadcasts import Broadcast, read_broadcasts
from zoea.queries.phrases import approval_line
from zoea.text.control_characters import one_line
from zoea.tui import number_format
from zoea.tui.commands import swarm_commands
from zoea.tui.commands.action import ActionContext, ActionPlace, Handlers
from zoea.tui.commands.keymap import CURSOR_KEYS
from zoea.tui.screens.base import NARROW, CockpitScreen
from zoea.tui.state.swarm_connection import OpenSwarm
from zoea.tui.swarm_list.broadcasts_panel import build_broadcast_lines
from zoea.tui.swarm_list.hive_layout import HiveCell, HiveGrouping, find_level
from zoea.tui.swarm_list.mysis_row import TableRow, build_heading
from zoea.tui.swarm_list.needs_you_panel import KeyScope, build_needs_lines, build_swarm_lines, find_next_in_need
from zoea.tui.swarm_list.panel_room import (
    COUNTED_MOST,
    PanelRoom,
    has_room_below,
    share_below,
    share_beside,
    share_in_one_frame,
)
from zoea.tui.swarm_list.row_filter import RowFilter
from zoea.tui.swarm_list.row_order import RowOrder, describe_order
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.clickable_text import TextBlock, TitledRule, key_hints, put_titles
from zoea.tui.widgets.message_prompt import MessagePrompt
from zoea.tui.widgets.mysis_detail import MysisDetail, build_empty_lines
from zoea.tui.widgets.search_inputs import FilterLine
from zoea.tui.widgets.status_bars import PieceLine
from zoea.tui.widgets.swarm_table import SwarmTable

_FEED_EVENTS = ("message.", "delivery.", "turn.ended", "turn.broke_off", "turn.resumed", "mysis.state")
_FEED_WAIT_S = 0.25
_IN_TURN = (StatusWord.WORKING, StatusWord.ASKING)
ZOOMABLE = ("list", "detail", "needs", "feed")
"""Panels that can be shown alone."""
_ALL_LINES = 10_000
TINY, HIGH, WIDE = 22, 34, 140
"""Below `TINY` rows the detail is one line; from `HIGH` on it is a panel also on narrow screens."""
_HIVE_HEAD = "one cell a mysis, brighter with more tokens in the last minute"


class DashboardScreen(CockpitScreen[None]):
    """Shows the list of all myses; every other screen opens above it."""

    CSS_PATH = "dashboard.tcss"
    PLACE = ActionPlace.DASHBOARD
    LEADS_BACK: ClassVar[bool] = False
    WAITS_WITH_FRAMES: ClassVar[bool] = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *CURSOR_KEYS,
        ("tab,shift+tab", "part"),
        ("left", "sideways(-1)"),
        ("right", "sideways(1)"),
    ]

    table: SwarmTable

    _body = getters.query_one("#body", Container)
    _box = getters.query_one("#swarm-box", Vertical)

    def __init__(self) -> None:
        super().__init__()
        self.broadcasts: tuple[Broadcast, ...] | None = None
        self._broadcasts_from: OpenSwarm | None = None
        self._broadcasts_task: asyncio.Task[None] | None = None
        self._broadcasts_are_stale = False
        self._wants_needs: bool | None = None
        self._meant: int | None = None
        self._titles = ("", "")
        self._grouping = HiveGrouping.STATUS
        self._panel_room = PanelRoom()
        self._needed = self._said = 0
        self._heads = PieceLine(id="heads")
        self._detail_rule = TitledRule(id="detail-rule")
        self._detail = MysisDetail(id="detail")
        self._broadcasts_rule = TitledRule(id="feed-rule")
        self._right = Container(id="right")
        self._needs = TextBlock(id="needs", classes="panel", title="NEEDS YOU")
        self._broadcasts_panel = TextBlock(id="feed", classes="panel", title="INBOX AND BROADCASTS")
        self._filter = FilterLine(id="filter")
        self.prompt = MessagePrompt(id="prompt")

    def bind_actions(self) -> Handlers:
        return {
            "app.find": self._filter.open,
            "app.zoom": lambda: self._zoom(ZOOMABLE[0] if not self.zoomed else ""),
            "approval.oldest": self._open_approvals,
            "swarm.broadcast": self.prompt.write_to_many,
            "swarm.broadcast-all": self.prompt.write_to_all,
            "swarm.attention": self._toggle_attention,
            "swarm.sort-before": lambda: self._sort_by(-1),
            "swarm.sort-after": lambda: self._sort_by(1),
            "mysis.pin": self._pin,
            "swarm.hive": lambda: self._group_by(self._grouping if self.table.grouping is None else None),
            "swarm.grouping": lambda: self._group_by(self._grouping.following),
            "swarm.next-in-need": self._go_to_next_in_need,
            "mysis.message": lambda: self.prompt.write_to(self.targets()[0]),
            "mysis.task": lambda: self.prompt.write_to(self.targets()[0], is_task=True),
            "swarm.again": lambda: swarm_commands.run_again(self.cockpit),
            "mysis.mark": self._mark,
            "mysis.mark-all": self._mark_all,
            "mysis.stop": lambda: self._give(swarm_commands.STOP),
            "mysis.relaunch": lambda: self._give(swarm_commands.RELAUNCH),
            "mysis.dismiss": lambda: self._give(swarm_commands.DISMISS),
            "mysis.delete": lambda: swarm_commands.confirm_deletion(self.cockpit, self.targets()),
            "mysis.pause": lambda: swarm_commands.toggle_pause(
                self.cockpit, self.targets(), shows_result=self._shows_result
            ),
            "mysis.undo": lambda: swarm_commands.undo_last(self.cockpit),
        }

    def on_compose(self) -> None:
        self._take_size(self.app.size)

    def compose_body(self) -> ComposeResult:
        with Container(id="body"):
            with Vertical(id="swarm-box", classes="panel"):
                yield self._heads
                feed, pins = self.cockpit.feed, self.cockpit.pins
                order = RowOrder(feed.rate, feed.roster.since, pinned=pins)
                self.table = SwarmTable(self._row, self._cell, self.cockpit.glyphs, order, id="swarm")
                yield self.table
            yield self._detail_rule
            yield self._detail
            yield self._broadcasts_rule
            with self._right:
                yield self._needs
                yield self._broadcasts_panel
        yield self._filter
        yield self.prompt

    def on_mount(self) -> None:
        self.table.focus()
        self.feed_changed(frozenset())

    def on_resize(self, event: events.Resize) -> None:
        self._take_size(event.size)

    def on_swarm_table_sized(self, event: SwarmTable.Sized) -> None:
        self._share_room()
        self._draw_titles()
        self.redraw_bars()

    def on_text_block_sized(self, event: TextBlock.Sized) -> None:
        """Redraw both panels at the side, because each takes the lines that the other leaves."""
        self._draw_needs()
        self._draw_broadcasts()

    def _share_room(self) -> None:
        """Give each panel the lines that it needs. The detail gets those that a short list leaves free."""
        self._take_columns()
        body, rows = self._body.size.height, self._count_rows()
        is_high, needed = self.has_class("-high"), max(self._needed, self._said)
        room, is_in_columns = PanelRoom(), self.has_class("-columns")
        if self.zoomed or (self.has_class("-tiny") and not is_in_columns):
            pass  # one panel has all lines
        elif self.has_class("-joined"):
            room = share_in_one_frame(body, rows, needed, is_high=is_high, has_side=not self.has_class("-short"))
        elif is_in_columns:
            room = share_beside(body, self._needed, self._said, is_high=is_high)
        elif is_high:
            room = share_below(body, rows, needed)
        if room != self._panel_room:
            self._panel_room = room
            self.set_class(room.detail is not None and self.has_class("-joined"), "-grown")
            self._detail.styles.height = room.detail
            self._right.styles.height = None if is_in_columns else room.side
            # In a quick change of sizes, columns may come before the frame of a small screen has gone.
            self._body.styles.grid_rows = f"{room.side} 1fr" if is_in_columns and room.side is not None else None
            self._needs.styles.max_height = room.needs

    def _count_rows(self) -> int:
        """Return the lines that the list could fill. A hive has larger cells with more room."""
        return len(self.cockpit.feed.myses) if self.table.grouping is None else _ALL_LINES

    def _take_columns(self) -> None:
        """On a wide screen, put panels beside the list if they do not fit below."""
        is_wide = self.app.size.width >= WIDE and not self.zoomed
        fits_below = self.has_class("-high") and has_room_below(self._body.size.height, self._count_rows())
        if (in_columns := is_wide and not fits_below) is not self.has_class("-columns"):
            self.set_class(in_columns, "-columns")
            # The grid fills its cells in this order: what needs the person is above the detail.
            self._body.move_child(self._right, before=self._detail) if in_columns else self._body.move_child(
                self._right, after=self._broadcasts_rule
            )

    def _zoom(self, panel: str) -> None:
        """Show one panel alone; all of them for an empty name."""
        self.zoomed = panel
        self._take_size(self.app.size)
        self._share_room()
        self.table.focus()
        self._draw_needs()
        self.redraw_bars()

    def _take_size(self, size: Size) -> None:
        """Set the classes of the layout: one frame for all parts on small screens.

        All at once, because each change styles every widget of the screen again.
        """
        is_high = size.height >= HIGH
        is_joined = (size.width < NARROW or (size.width < WIDE and not is_high)) and not self.zoomed
        sizes = {"-tiny": size.height < TINY, "-high": is_high, "-joined": is_joined}
        zooms = {f"-zoom-{panel}": panel == self.zoomed for panel in ZOOMABLE}
        self.update_classes({**sizes, **zooms, "-zoomed": bool(self.zoomed)})

    @property
    def holds_keys(self) -> bool:
        return self.prompt.is_sending

    def action_context(self) -> ActionContext:
        return self.cockpit.build_context(*self.targets())

    def targets(self) -> tuple[MysisView, ...]:
        """Return the clicked mysis, else the marked myses, else the one under the cursor."""
        if self._meant is not None:
            meant = self.cockpit.feed.myses.get(self._meant)
            return (meant,) if meant is not None else ()
        marks = self.cockpit.marks
        marked = [view for view in self.cockpit.feed.in_order() if view.id in marks] if marks else []
        if marked:
            return tuple(marked)
        cursor = self.table.cursor if self.is_mounted else None
        return (cursor,) if cursor is not None else ()

    def _row(self, view: MysisView) -> TableRow:
        feed = self.cockpit.feed
        spent = feed.spark(view.id)
        spark = number_format.sparkline(spent, self.cockpit.glyphs["spark"], 12) if spent else ""
        question = self.cockpit.approvals.of(view.id) if view.approvals else None
        asks = approval_line(question) if question else ""
        now, since, files = self.cockpit.now(), feed.roster.since(view.id), self.table.files_of(view)
        marked, pinned = view.id in self.cockpit.marks, view.id in self.cockpit.pins
        lacks = ", ".join(fault.name for fault in feed.faults if view.template in fault.templates)
        return TableRow(view, marked, spark, feed.rate(view.id), now, asks, since, pinned, files, lacks)

    def _cell(self, mysis_id: int) -> HiveCell:
        feed = self.cockpit.feed
        return find_level(feed.rate(mysis_id), feed.highest_rate), mysis_id in self.cockpit.marks

    # News.

    def feed_changed(self, ids: frozenset[int]) -> None:
        if not self.is_mounted:
            return
        self.table.show(self.cockpit.feed.in_order(), ids or None)
        self._share_room()
        cursor = self.table.cursor
        if not ids or cursor is None or cursor.id in ids:
            self._draw_detail()
        self._draw_needs()
        self._draw_titles()
        self.prompt.retarget()
        super().feed_changed(ids)
        if self.cockpit.opened is not self._broadcasts_from:
            self._broadcasts_from = self.cockpit.opened
            self._refresh_broadcasts()

    def shows_message_to(self, recipients: Sequence[ReceiptLine]) -> bool:
        """Return whether a panel shows it, or the row of a single recipient.

        The row of a mysis that begins to work shows it, unless that may move it away; another row does not change.
        The detail of the mysis under the cursor lists what waits for the end of its turn.
        """
        if len(recipients) > 1:
            return bool(self._broadcasts_panel.region)
        (one,), in_sight, cursor = recipients, self.table.in_sight, self.table.cursor
        if one.status == "delivered":
            waits = cursor is not None and cursor.name == one.mysis and cursor.status in _IN_TURN
            return waits and self._detail.lists_messages and bool(self._detail.region)
        names = (view.name for view in self.table.shown if view.id in in_sight)
        return one.status == "started" and one.mysis in names and not (self.table.order.is_moving or self._filter.text)

    def feed_event(self, event: Event) -> None:
        if event.kind.startswith(_FEED_EVENTS):
            self._refresh_broadcasts()

    def approvals_changed(self) -> None:
        self.table.refresh()
        self._draw_needs()
        self.redraw_bars()

    def tick(self) -> None:
        self.table.tick()
        self._draw_detail()
        self._draw_needs()
        self._draw_broadcasts()
        super().tick()

    def theme_changed(self) -> None:
        self.table.set_glyphs(self.cockpit.glyphs)
        super().theme_changed()
        self._draw_titles()

    def on_swarm_table_cursor_moved(self, event: SwarmTable.CursorMoved) -> None:
        self._draw_detail()
        self._draw_needs()
        self.redraw_bars()

    def on_swarm_table_scrolled(self, event: SwarmTable.Scrolled) -> None:
        if self.cockpit.marks:
            self._draw_titles()

    def on_swarm_table_chosen(self, event: SwarmTable.Chosen) -> None:
        self.cockpit.action_do("mysis.focus")

    def _refresh_broadcasts(self) -> None:
        """Read the broadcasts again, at most four times a second."""
        self._broadcasts_are_stale = True
        if self._broadcasts_task is None or self._broadcasts_task.done():
            self._broadcasts_task = asyncio.create_task(self._read_broadcasts())

    async def _read_broadcasts(self) -> None:
        while self._broadcasts_are_stale:
            await asyncio.sleep(_FEED_WAIT_S)
            self._broadcasts_are_stale = False
            if (broadcasts := await self.read(read_broadcasts)) is None:
                return
            self.broadcasts = broadcasts
            if self.is_mounted:
                self._draw_broadcasts()

    def on_unmount(self) -> None:
        if self._broadcasts_task is not None:
            self._broadcasts_task.cancel()

    def _draw_needs(self) -> None:
        """List the myses that need the person, the most urgent first."""
        if not self.is_mounted:
            return
        views = self.cockpit.feed.roster.in_need
        asked, now, glyphs = self.cockpit.approvals, self.cockpit.now(), self.cockpit.glyphs
        cursor = self.table.cursor
        reach = KeyScope(cursor.id if cursor else None, frozenset(self.cockpit.marks), self.cockpit.keys)
        opened, (width, room) = self.cockpit.opened, self._needs.content_size
        ended = self.cockpit.feed.roster.ended if opened and opened.asks_restart else {}
        above = build_swarm_lines(ended, self.cockpit.feed.faults, reach, glyphs, width)
        if not views and not above:
            self._wants_needs = None  # the next mysis in need is shown again
        self._needs.set_class(bool(views or above), "-needed")
        self._show_tab(len(views) + len(above))
        if self.has_class("-columns"):
            # It can grow to what broadcasts and the detail leave.
            room = (self._panel_room.needs or self._body.size.height // 2) - 2
        full = build_needs_lines(views, asked, reach, now, glyphs, width, COUNTED_MOST) if views else []
        if (needed := len(full) + len(above)) != self._needed:
            self._needed = needed
            self._share_room()
        room -= len(above)
        lines = full if len(full) <= room else build_needs_lines(views, asked, reach, now, glyphs, width, room)
        self._needs.put([*above, *lines])

    def need_pieces(self) -> list[Piece]:
        """Return who needs the person. Where no panel names it, add the key that goes there."""
        pieces = super().need_pieces()
        way: list[Piece] = [(f" ({self.cockpit.key('swarm.next-in-need')})", "key")]
        return [*pieces, *way] if pieces and not self._right.display else pieces

    def _show_tab(self, needing: int) -> None:
        """Show the myses that need the person, or the broadcasts, where both share one place."""
        shows_needs = bool(needing) and self._wants_needs is not False
        self.set_class(shows_needs, "-tab-needs")
        tabs = [("INBOX AND BROADCASTS", "quiet" if shows_needs else "title", "screen.part" if shows_needs else "")]
        if needing:  # what is shown stands first
            tabs.insert(
                not shows_needs,
                (f"NEEDS YOU {needing}", "asking" if shows_needs else "quiet", "" if shows_needs else "screen.part"),
            )
        other = "the inbox" if shows_needs else "who needs you"
        # In an open prompt the key chooses the delivery mode.
        has_key = needing and not self.prompt.is_open
        self._broadcasts_rule.put(tabs, [(f"tab shows {other}", "quiet", "screen.part")] if has_key else [])

    def action_part(self) -> None:
        """Show the other panel of two that share one place, or zoom the next one."""
        if self.zoomed:
            panels = [panel for panel in ZOOMABLE if panel != "needs" or self._needed]
            self._zoom(panels[(panels.index(self.zoomed) + 1) % len(panels)] if self.zoomed in panels else panels[0])
            return
        if not self._broadcasts_rule.display:
            self.notify("Both lists are shown already", markup=False)
            return
        self._wants_needs = not self.has_class("-tab-needs")
        self._draw_needs()
        if self._wants_needs and not self.has_class("-tab-needs"):
            self.notify("No mysis needs you", markup=False)

    def _draw_titles(self) -> None:
        table = self.table
        found = self._filter.text
        shown, all_of_them = table.count, len(self.cockpit.feed.myses)
        title = f"SWARM · {shown} of {all_of_them} with '{one_line(found)}'" if found else "SWARM"
        if marks := self.cockpit.marks:
            hidden = len(marks - table.in_sight)
            title += f" · {len(marks)} marked" + (f" ({hidden} hidden)" if hidden else "")
        how = describe_order(table.order, table.grouping, has_marks=bool(marks))
        titles = (title, how if all_of_them else "")
        if titles != self._titles:
            self._titles = titles
            put_titles(self._box, Content(title), key_hints(titles[1]))
        self._heads.put(
            build_heading(table.columns, table.order.column) if table.grouping is None else [(_HIVE_HEAD, "quiet")]
        )

    def _draw_broadcasts(self) -> None:
        if self.broadcasts is None:
            self._broadcasts_panel.put([[("Reading the broadcasts", "quiet")]] if self.cockpit.opened else [])
            return
        size, now, myses = self._broadcasts_panel.content_size, self.cockpit.now(), self.cockpit.feed.myses
        full = build_broadcast_lines(self.broadcasts, now, size.width, COUNTED_MOST, myses)
        if len(full) != self._said:
            self._said = len(full)
            self._share_room()
        fits = len(full) <= size.height
        self._broadcasts_panel.put(
            full if fits else build_broadcast_lines(self.broadcasts, now, size.width, size.height, myses)
        )

    def _draw_detail(self) -> None:
        view = self.table.cursor
        self._detail.show(view, build_empty_lines(self.cockpit) if view is None else [])
        self._detail_rule.put([(one_line(view.name), "title", "app.do('mysis.focus')")] if view is not None else [])

    def select(self, mysis_id: int) -> None:
        """Put the cursor on one mysis; remove filter and marks."""
        self._clear_filter()
        self.cockpit.marks.clear()
        self.table.select(mysis_id)
        self._marks_changed()

    # Clicks on one mysis.

    def action_at(self, action_id: str, mysis_id: int) -> None:
        """Run an action on the mysis beside the clicked text; cursor and marks stay."""
        self._meant = mysis_id
        try:
            self.cockpit.action_do(action_id, again=lambda: self.action_at(action_id, mysis_id))
        finally:
            self._meant = None

    def action_go(self, mysis_id: int) -> None:
        """Put the cursor on a mysis; remove a filter that hides it."""
        if mysis_id not in {view.id for view in self.table.shown}:
            self._clear_filter()
        self.table.select(mysis_id)
        self.redraw_bars()

    def _open_approvals(self) -> None:
        from zoea.tui.dialogs.approvals import ApprovalDialog

        self.cockpit.push_screen(ApprovalDialog(self._meant or 0))

    def _go_to_next_in_need(self) -> None:
        cursor = self.table.cursor
        ids = [view.id for view in self.cockpit.feed.roster.in_need]
        found = find_next_in_need(ids, cursor.id if cursor is not None else None)
        if found is not None:
            self.action_go(found)
        else:
            self.notify("No other mysis needs you" if ids else "No mysis needs you", markup=False)

    # Moving.

    def action_move(self, by: int) -> None:
        self.table.move(by)

    def action_sideways(self, by: int) -> None:
        self.table.move_sideways(by)

    def action_edge(self, last: int) -> None:
        self.table.move_to(self.table.count - 1 if last else 0)

    def action_leaf(self, by: int) -> None:
        self.table.move(by * self.table.page)

    # Actions on myses.

    def _mark(self) -> None:
        view = self.table.cursor
        if view is not None:
            self.cockpit.marks ^= {view.id}
            self.table.move_on()
            self._marks_changed()

    def _mark_all(self) -> None:
        shown = {view.id for view in self.table.shown}
        self.cockpit.marks = set() if shown <= self.cockpit.marks else shown
        self._marks_changed()

    def _marks_changed(self) -> None:
        self.table.refresh()
        self._draw_titles()
        self._draw_needs()
        self.redraw_bars()

    def _toggle_attention(self) -> None:
        order = self.table.order
        self.table.sort_by(replace(order, attention_first=not order.attention_first))
        self._draw_titles()

    def _sort_by(self, by: int) -> None:
        """Sort the rows by the column beside, and leave the hive, which has none."""
        if self.table.grouping is not None:
            self._group_by(None)
        order = self.table.order
        self.table.sort_by(replace(order, column=order.column.step(by)))
        self._draw_titles()

    def _pin(self) -> None:
        """Pin the targets to the top of the list, or unpin them if all are."""
        ids = {view.id for view in self.targets()}
        pins = self.cockpit.pins
        if ids <= pins:
            pins -= ids
        else:
            pins |= ids
        self.table.sort_by(self.table.order)

    def _group_by(self, grouping: HiveGrouping | None) -> None:
        """Show one cell a mysis, in groups. None shows one row a mysis again."""
        self._grouping = grouping or self._grouping
        self.table.group_by(grouping)
        self._share_room()
        self._draw_titles()
        self.retitle("swarm.hive", "rows" if grouping is not None else "")

    @property
    def _shows_result(self) -> bool:
        """Whether the result of a command is shown. The targets may then not be the cursor's row."""
        return bool(self.cockpit.marks) or self._meant is not None

    def _give(self, command: swarm_commands.BatchCommand) -> None:
        views = [view for view in self.targets() if command.concerns(view)]
        swarm_commands.give(self.cockpit, views, command, shows_result=self._shows_result)

    # Messages.

    def on_screen_resume(self) -> None:
        self.prompt.resume()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self._draw_needs()

    # Filter.

    def on_filter_line_changed(self, event: FilterLine.Changed) -> None:
        self._use_filter(RowFilter.parse(event.text))
        self._draw_titles()

    def _use_filter(self, wanted: RowFilter) -> None:
        self.cockpit.row_filter = wanted
        self.table.set_filter(wanted)

    def _clear_filter(self) -> None:
        self._filter.action_clear()
        self._use_filter(RowFilter())

    @on(FilterLine.Closed)
    @on(MessagePrompt.Closed)
    def _return_to_table(self) -> None:
        self.table.focus()

    def back(self) -> None:
        if self.prompt.is_open:
            self.prompt.close()
        elif self.zoomed:
            self._zoom("")
        elif self._filter.text:
            self._filter.action_clear()
        elif self.cockpit.marks:
            self.cockpit.marks.clear()
            self._marks_changed()
