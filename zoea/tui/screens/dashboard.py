"""The dashboard: the whole swarm at one glance, who needs the commander, and one key to act on it."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.content import Content

from zoea.app.broadcasts import Broadcast, latest
from zoea.model.errors import StoreError
from zoea.model.values import Event, MysisView
from zoea.tui import attention, figures
from zoea.tui.actions import Place, Situation, bindings, of
from zoea.tui.needs import call_line, needs_lines
from zoea.tui.rows import Row, glyph, one_line, said
from zoea.tui.screens.base import CockpitScreen
from zoea.tui.screens.commanding import Commanding
from zoea.tui.screens.speaking import Speaking
from zoea.tui.widgets.bars import KeyLine, Line
from zoea.tui.widgets.filter_line import FilterLine
from zoea.tui.widgets.prompt import Prompt
from zoea.tui.widgets.swarm_table import SwarmTable
from zoea.tui.widgets.text_block import Piece, TextBlock

_FEED_EVENTS = ("message.", "delivery.", "turn.ended")
_FEED_WAIT_S = 0.25


class Dashboard(Commanding, Speaking, CockpitScreen[None]):
    """Table, detail of the cursor's row, broadcasts with their receipts, and the prompt."""

    CSS_PATH = "dashboard.tcss"
    PLACES: ClassVar[tuple[Place, ...]] = (Place.EVERYWHERE, Place.DASHBOARD)
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(of(Place.DASHBOARD)),
        Binding("j,down", "cursor(1)", show=False),
        Binding("k,up", "cursor(-1)", show=False),
        Binding("g,home", "edge(0)", show=False),
        Binding("G,end", "edge(1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
    ]

    table: SwarmTable

    def __init__(self) -> None:
        super().__init__()
        self._broadcasts: tuple[Broadcast, ...] = ()
        self._feed_task: asyncio.Task[None] | None = None
        self._feed_is_stale = False
        self._detail = TextBlock(id="detail", classes="panel")
        self._needs = TextBlock(id="needs", classes="panel")
        self._feed = TextBlock(id="feed", classes="panel")
        self._filter = FilterLine(id="filter")
        self._prompt = Prompt(id="prompt")

    def compose(self) -> ComposeResult:
        yield Line(id="top")
        with Container(id="body"):
            with Vertical(id="left"):
                self.table = SwarmTable(self._row, self.cockpit.glyphs, id="swarm")
                self.table.border_title = "SWARM"
                yield self.table
                yield self._detail
            with Vertical(id="right"):
                self._needs.border_title = "NEEDS YOU"
                yield self._needs
                self._feed.border_title = "BROADCASTS"
                yield self._feed
        yield self._filter
        yield self._prompt
        yield KeyLine(id="keys")

    def on_mount(self) -> None:
        super().on_mount()
        self.table.focus()
        self.feed_changed(frozenset())

    @property
    def prompt(self) -> Prompt:
        return self._prompt

    def situation(self) -> Situation:
        return self.cockpit.base_situation(self.targets())

    def targets(self) -> tuple[MysisView, ...]:
        """The marked myses, else the one under the cursor."""
        marked = [view for view in self.cockpit.feed.in_order() if view.id in self.cockpit.marks]
        if marked:
            return tuple(marked)
        cursor = self.table.cursor if self.is_mounted else None
        return (cursor,) if cursor is not None else ()

    def _row(self, view: MysisView) -> Row:
        feed = self.cockpit.feed
        spark = figures.sparkline(feed.spark(view.id), self.cockpit.glyphs["spark"], 12) if feed.spark(view.id) else ""
        question = self.cockpit.asked.of(view.id) if view.approvals else None
        asks = call_line(question.tool, question.arguments) if question else ""
        return Row(view, view.id in self.cockpit.marks, spark, feed.rate(view.id), self.cockpit.now(), asks)

    # What changes.

    def feed_changed(self, ids: frozenset[int]) -> None:
        if not self.is_mounted:
            return
        first = not self.table.shown and bool(self.cockpit.feed.myses)
        self.table.show(self.cockpit.feed.in_order(), ids or None)
        self._draw_detail()
        self._draw_needs()
        self._draw_titles()
        self.retarget()
        super().feed_changed(ids)
        if first or (self._feed_task is None and self.cockpit.opened is not None):
            self._refresh_feed()

    def feed_happened(self, event: Event) -> None:
        if event.kind.startswith(_FEED_EVENTS):
            self._refresh_feed()

    def asked_changed(self) -> None:
        self.table.refresh()
        self._draw_needs()
        self.redraw_bars()

    def tick(self) -> None:
        self.table.tick()
        self._draw_detail()
        self._draw_needs()
        super().tick()

    def look_changed(self) -> None:
        self.table.set_glyphs(self.cockpit.glyphs)
        super().look_changed()

    def on_swarm_table_cursor_moved(self, event: SwarmTable.CursorMoved) -> None:
        self._draw_detail()
        self.redraw_bars()

    def on_swarm_table_chosen(self, event: SwarmTable.Chosen) -> None:
        self.cockpit.action_do("mysis.focus")

    def _refresh_feed(self) -> None:
        """Read the broadcasts again, at most four times a second; what comes while reading is read after it."""
        self._feed_is_stale = True
        if self._feed_task is None or self._feed_task.done():
            self._feed_task = asyncio.create_task(self._read_feed())

    async def _read_feed(self) -> None:
        while self._feed_is_stale:
            await asyncio.sleep(_FEED_WAIT_S)
            self._feed_is_stale = False
            opened = self.cockpit.opened
            if opened is None:
                return
            try:
                self._broadcasts = await asyncio.to_thread(latest, opened.database)
            except StoreError as error:
                self.cockpit.show_error(error)
                return
            if self.is_attached and self.is_mounted:
                self._draw_feed()

    def on_unmount(self) -> None:
        if self._feed_task is not None:
            self._feed_task.cancel()

    def _draw_needs(self) -> None:
        """Who needs the commander, the most urgent first, with the key that answers."""
        if self.is_mounted:
            views = attention.needing(self.cockpit.feed.myses.values())
            self._needs.put(needs_lines(views, self.cockpit.asked, self.cockpit.now(), self.cockpit.glyphs))
            self._needs.set_class(bool(views), "-needed")

    def _draw_titles(self) -> None:
        table = self.table
        found = self._filter.text
        shown, all_of_them = len(table.shown), len(self.cockpit.feed.myses)
        title = f"SWARM · {shown} of {all_of_them} with '{one_line(found)}'" if found else "SWARM"
        table.border_title = Content(title)
        order = "needs you first" if table.is_attention_first else "as created"
        table.border_subtitle = f"order: {order} · a changes it" if all_of_them else ""

    def _draw_feed(self) -> None:
        lines: list[list[Piece]] = []
        now = self.cockpit.now()
        for said_to_all in self._broadcasts:
            who = "commander" if said_to_all.sender == "you" else "mysis"
            to = "you" if said_to_all.to_commander else str(said_to_all.recipients)
            lines.append(
                [
                    (f"{figures.clock(said_to_all.created_at, now)} ", "quiet"),
                    (one_line(said_to_all.sender), who),
                    (f" → {to}  ", "quiet"),
                    (one_line(said_to_all.text), ""),
                ]
            )
            if not said_to_all.to_commander:
                lines.append([("      " + _receipt(said_to_all), "quiet")])
        self._feed.put(lines or [[("nothing was broadcast yet: press b", "quiet")]])

    def _draw_detail(self) -> None:
        block = self._detail
        view = self.table.cursor
        if view is None:
            block.border_title = ""
            block.put(self._nobody())
            return
        block.border_title = Content(one_line(view.name))
        block.put(detail_lines(view, self.cockpit.now(), self.cockpit.glyphs))

    def _nobody(self) -> list[list[Piece]]:
        cockpit = self.cockpit
        if cockpit.open_error is not None:
            error = cockpit.open_error
            return [[(error.title, "errored")], [(error.what, "")], [(error.hint, "quiet")]]
        if cockpit.opened is None:
            return [[("opening the swarm…", "quiet")]]
        return [[("no mysis yet: press n to create one", "quiet")]]

    def select(self, mysis_id: int) -> None:
        """Put the cursor on one mysis, whatever was filtered or marked."""
        self._filter.clear()
        self.table.set_filter("")
        self.cockpit.marks.clear()
        self.table.select(mysis_id)
        self.redraw_bars()

    # Moving.

    def action_cursor(self, by: int) -> None:
        self.table.move(by)

    def action_edge(self, last: int) -> None:
        self.table.move_to(len(self.table.shown) - 1 if last else 0)

    def action_page(self, by: int) -> None:
        self.table.move(by * self.table.page)

    # Actions on myses.

    def do_mysis_mark(self) -> None:
        view = self.table.cursor
        if view is not None:
            self.cockpit.marks ^= {view.id}
            self.table.move(1)
            self.table.refresh()
            self.redraw_bars()

    def do_mysis_mark_all(self) -> None:
        shown = {view.id for view in self.table.shown}
        self.cockpit.marks = set() if shown <= self.cockpit.marks else shown
        self.table.refresh()
        self.redraw_bars()

    def do_swarm_attention(self) -> None:
        self.table.toggle_attention()
        self._draw_titles()

    def do_mysis_focus(self) -> None:
        from zoea.tui.screens.focus import Focus

        self.cockpit.push_screen(Focus(self.targets()[0].id))

    # Speaking.

    def do_mysis_message(self) -> None:
        self.speak_to(self.targets()[0])

    def do_swarm_broadcast(self) -> None:
        self.speak_to_all()

    def on_prompt_closed(self, event: Prompt.Closed) -> None:
        self.table.focus()

    # Finding.

    def do_app_find(self) -> None:
        self._filter.open()

    def on_filter_line_changed(self, event: FilterLine.Changed) -> None:
        self.table.set_filter(event.text)
        self._draw_titles()

    def on_filter_line_closed(self, event: FilterLine.Closed) -> None:
        self.table.focus()

    def do_app_back(self) -> None:
        if self.prompt.is_open:
            self.prompt.close()
        elif self._filter.text:
            self._filter.clear()
        elif self.cockpit.marks:
            self.cockpit.marks.clear()
            self.table.refresh()
            self.redraw_bars()


def detail_lines(view: MysisView, now: int, glyphs: dict[str, str]) -> list[list[Piece]]:
    """What the detail panel says of one mysis."""
    state = glyph(view)
    share = view.context_used / view.context_limit if view.context_limit else 0.0
    filled, empty = figures.bar(share, 10)
    first: list[Piece] = [
        (f"{glyphs.get(state, '?')} {view.state}", state),
        (f"  turn {view.turn_number}, request {view.iteration}  ", "quiet"),
        (filled, "running"),
        (empty, "quiet"),
        (f" {figures.tokens(view.context_used)}/{figures.tokens(view.context_limit)}", ""),
        (f"  {figures.tokens(view.tokens)} tokens in all, {figures.money(view.cost_micros)}", "quiet"),
    ]
    lines = [first]
    if view.failure is not None:
        lines.append([(view.failure.title, "errored"), (f"  {view.failure.what}", "")])
        lines.append([(view.failure.hint, "quiet")])
    elif view.streaming:
        lines.append([(one_line(view.streaming)[-400:], "")])
    else:
        lines.append([(said(view, now), "")])
    lines.append([(f"{view.template} · {view.model or 'its own model'} on {view.provider}", "quiet")])
    return lines


def _receipt(broadcast: Broadcast) -> str:
    parts = [
        (broadcast.answered, "answered"),
        (broadcast.working, "working"),
        (broadcast.queued, "queued"),
        (broadcast.unanswered, "not answered"),
        (broadcast.skipped, "skipped"),
    ]
    return " · ".join(f"{count} {word}" for count, word in parts if count)
