"""Upstreams and providers: their state, tools and stderr, with reconnecting and trying a tool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace
from textual import on, work
from textual.app import ComposeResult
from textual.containers import Container, Vertical

from zoea.model.errors import SettingsError, ZoeaError
from zoea.model.values import ProviderView, UpstreamView
from zoea.queries.events import read_log_tail
from zoea.runtime.upstream_import import enable_upstream, remove_upstream
from zoea.settings.layers import load
from zoea.text.control_characters import one_line
from zoea.text.sentences import count_of
from zoea.tui import number_format
from zoea.tui.commands import swarm_commands
from zoea.tui.commands.action import ActionContext, ActionPlace, Handlers
from zoea.tui.conversation.blocks import Symbols
from zoea.tui.conversation.tool_items import build_tool_item
from zoea.tui.screens.tabbed_screen import TabbedScreen
from zoea.tui.state.deferred_work import reread
from zoea.tui.text_layout import Piece, fit_text, wrap_words
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.folding_list import FoldingItem, FoldingList
from zoea.tui.widgets.line_list import LineList

NAME_WIDTH = 14
STATE_WIDTH = 9
LATENCY_WIDTH = 8
EVERY_TICKS = 2
OFF = "off"
"""State of an upstream that the settings switch off."""
_ROLES = {
    "ready": "running",
    "connecting": "waiting",
    "retrying": "retrying",
    "limited": "waiting",
    "closed": "stopped",
    OFF: "stopped",
}

_WORDS = {"opening": "connecting", "open": "ready", "lost": "retrying"}
"""States of upstreams in other words than they are stored in."""

Row = UpstreamView | ProviderView | str


class UpstreamsScreen(TabbedScreen):
    """Shows tool servers and providers on the left, the chosen one on the right."""

    CSS_PATH = "upstreams.tcss"
    PLACE = ActionPlace.UPSTREAMS
    PARTS: ClassVar[dict[str, str]] = {"list": "UPSTREAMS", "offers": "TOOLS", "stderr": "STDERR"}

    def __init__(self) -> None:
        super().__init__()
        self._upstreams: tuple[UpstreamView, ...] = ()
        self._providers: tuple[ProviderView, ...] | None = None
        self._is_read = False
        self._rows: list[Row] = []
        self._offered: object = None
        self._stderr: list[str] = []
        self._tail: Sequence[str] = ()
        self._ticks = 0

    def bind_actions(self) -> Handlers:
        return {
            **super().bind_actions(),
            "upstreams.reconnect": self._reconnect,
            "upstreams.try": self._try_tool,
            "upstreams.add": self._add,
            "upstreams.switch": self._switch,
            "upstreams.remove": self._remove,
        }

    def compose_body(self) -> ComposeResult:
        yield self.strip()
        with Container(id="body"):
            yield LineList(
                self._line,
                is_title=lambda at: isinstance(self._rows[at], str),
                id="list",
                classes="panel",
                title="UPSTREAMS (TOOL SERVERS) & PROVIDERS",
                empty="Asking…",
            )
            with Vertical(id="right"):
                yield TextBlock(id="about", classes="panel")
                yield FoldingList(id="offers", classes="panel")
                yield LineList(
                    lambda at, _: [(self._stderr[at], "")], has_cursor=False,
                    id="stderr", classes="panel", title="STDERR",
                )  # fmt: skip

    def on_mount(self) -> None:
        self._read_upstreams()
        self._try_providers()

    @property
    def chosen(self) -> UpstreamView | ProviderView | None:
        """The upstream or provider under the cursor."""
        place = self.query_one("#list", LineList).place
        row = self._rows[place] if place < len(self._rows) else None
        return row if not isinstance(row, str) else None

    def action_context(self) -> ActionContext:
        is_shown = (
            self.part == "offers" or self.has_class("-wide") or not (self.has_class("-narrow") or self.part == "stderr")
        )
        return replace(self.cockpit.build_context(), hidden="" if is_shown else "press tab to go to its tools first")

    def count_of(self, part: str) -> int | None:
        row = self.chosen
        if part == "offers" and row is not None:
            return len(row.tools if isinstance(row, UpstreamView) else row.models or ())
        return len(self._stderr) if part == "stderr" else None

    # Reading.

    @reread
    async def _read_upstreams(self) -> None:
        try:
            found = await self.cockpit.api.upstreams()
        except ZoeaError as error:
            self.cockpit.show_error(error)
            return
        found = await asyncio.to_thread(self._add_stopped, found)
        if self.is_mounted:
            self._upstreams = found
            self._arrange()
            self._is_read = True

    def _add_stopped(self, running: tuple[UpstreamView, ...]) -> tuple[UpstreamView, ...]:
        """Add those that the settings switch off, in the order of the settings. One switched on stays until it runs."""
        try:
            given = load(self.cockpit.places).settings.upstream
        except SettingsError:
            return running  # the settings screen shows the error
        shown = {one.name for one in self._upstreams}
        found = {one.name: one for one in running}
        for name, one in given.items():
            if name not in found and (not one.enabled or name in shown):
                found[name] = UpstreamView(name, "stdio" if one.command else "http", OFF, tools=())
        places = {name: place for place, name in enumerate(given)}
        return tuple(sorted(found.values(), key=lambda one: places.get(one.name, len(places))))

    def _try_providers(self) -> None:
        """Ask every provider for its models; that costs no tokens and takes seconds at most."""
        self._providers = None
        self._read_providers()

    @work(exclusive=True, exit_on_error=False, group="providers")
    async def _read_providers(self) -> None:
        try:
            found = await self.cockpit.api.providers()
        except ZoeaError as error:
            self.cockpit.show_error(error)
            found = ()
        if self.is_mounted:
            self._providers = found
            self._arrange()

    def tick(self) -> None:
        super().tick()
        self._ticks += 1
        if self._ticks % EVERY_TICKS == 0:
            self._read_upstreams()
        self._read_stderr()

    @property
    def _log_path(self) -> str:
        return self.chosen.log if isinstance(self.chosen, UpstreamView) else ""

    @reread
    async def _read_stderr(self) -> None:
        path = self._log_path
        tail = await asyncio.to_thread(read_log_tail, Path(path)) if path else ()
        if self.is_mounted and path == self._log_path and tail != self._tail:
            self._tail = tail
            self._show_stderr()

    # Showing.

    def _arrange(self) -> None:
        """Build the rows; the cursor stays on its item."""
        # The first upstream gets the cursor, because nothing could be chosen before.
        kept = self.chosen if self._is_read else None
        rows: list[Row] = ["Upstreams", *self._upstreams]
        if not self._upstreams:
            rows.append("  no tool servers yet: n adds one")
        rows += ["", "Providers"]
        rows += ["  asking each for its models…"] if self._providers is None else list(self._providers)
        self._rows = rows
        names = [row.name if not isinstance(row, str) else "" for row in rows]
        kinds = [type(row) for row in rows]
        faults = {fault.name for fault in self.cockpit.feed.faults}
        first = next((at for at, row in enumerate(rows) if not isinstance(row, str)), 0)
        place = next((at for at, name in enumerate(names) if name in faults), first)
        if kept is not None:
            same = [at for at in range(len(rows)) if names[at] == kept.name and kinds[at] is type(kept)]
            place = same[0] if same else place
        self.query_one("#list", LineList).show(len(rows), place=place)
        self._show_chosen()

    def _line(self, place: int, width: int) -> list[Piece]:
        row = self._rows[place]
        if isinstance(row, str):
            return [(row, "quiet" if row.startswith(" ") else "title")]
        state, latency, offers = _summary(row)
        marks = {"running": Symbols.ok, "errored": Symbols.bad}
        return [
            (f" {marks.get(_role(state)) or self.cockpit.glyphs[_role(state)]} ", _role(state)),
            (fit_text(one_line(row.name), NAME_WIDTH), "strong"),
            (" ", ""),
            (fit_text(state, STATE_WIDTH), _role(state)),
            (fit_text(latency, LATENCY_WIDTH, right=True), "quiet"),
            ("  ", ""),
            (offers, "quiet"),
        ]

    @on(LineList.Moved, "#list")
    def _show_chosen(self) -> None:
        row = self.chosen
        about, offers = self.query_one("#about", TextBlock), self.query_one("#offers", FoldingList)
        if isinstance(row, UpstreamView):
            about.put(_about_upstream(row))
            self._offer(row.tools, [build_tool_item(tool) for tool in row.tools], "TOOLS", "No tools listed yet")
        elif isinstance(row, ProviderView):
            about.put(_about_provider(row))
            models = [FoldingItem([(one_line(name), "llm")], brief=0) for name in row.models or ()]
            self._offer(row.models, models, "MODELS", "No models offered" if row.models == () else "not known")
        else:
            about.put([])
            offers.caption("")
            self._offer(None, [], "TOOLS", "")
        self.draw_strip()
        self._read_stderr()

    def _offer(self, what: object, items: Sequence[FoldingItem], title: str, empty: str) -> None:
        """Show tools or models; the same ones keep cursor and folds."""
        noun = title[:-1].lower()
        key = (title, self.chosen.name if self.chosen is not None else "", what)
        if key != self._offered:
            self._offered = key
            offers = self.query_one("#offers", FoldingList)
            offers.put(items, empty=empty)
            offers.caption(title, f"{count_of(len(items), noun)} · enter unfold" if items else "")

    @on(LineList.Resized, "#stderr")
    def _show_stderr(self) -> None:
        shown = self.query_one("#stderr", LineList)
        if shown.width > 0:
            was_at_end = shown.is_at_end
            self._stderr = [part for line in self._tail for part in wrap_words(line, shown.width)]
            shown.show(len(self._stderr), empty="No output on stderr")
            if was_at_end:
                shown.to_end()
            self.draw_strip()

    # Actions.

    def _reconnect(self) -> None:
        row = self.chosen
        if isinstance(row, ProviderView):
            self._try_providers()
            self._arrange()
        elif isinstance(row, UpstreamView):
            cut = f"{count_of(row.in_flight, 'call')} in flight would be cut off"
            note = f"{cut}: press again to reconnect {one_line(row.name)}"
            if row.in_flight and not self.cockpit.arming.press(f"reconnect {row.name}", note):
                self.notify(note, markup=False)
                return

            def opened(_: object) -> None:
                self.notify(f"{one_line(row.name)} is opened again", markup=False)
                self._read_upstreams()

            self.cockpit.ask_swarm(self.cockpit.api.reconnect(row.name), done=opened)

    def _add(self) -> None:
        from zoea.tui.dialogs.upstream_forms import AddUpstreamDialog

        def added(names: tuple[str, ...] | None) -> None:
            if names:
                self._apply_settings()

        self.cockpit.push_screen(AddUpstreamDialog(), added)

    def _switch(self) -> None:
        """Switch the upstream under the cursor off, or on where it is off."""
        row = self.chosen
        if isinstance(row, UpstreamView):
            self._change_settings(enable_upstream, row.name, row.state == OFF)
        else:
            self._ask_for_upstream("on/off")

    def _remove(self) -> None:
        row = self.chosen
        if isinstance(row, UpstreamView):
            name = one_line(row.name)
            lines = [f"Remove {name}?", "It goes from your settings, and its calls in flight are cut off."]
            swarm_commands.confirm(
                self.cockpit, "REMOVE", lines, "remove", lambda: self._change_settings(remove_upstream, row.name)
            )
        else:
            self._ask_for_upstream("remove")

    def _ask_for_upstream(self, title: str) -> None:
        self.notify("Put the cursor on an upstream first", title=title, markup=False)

    def _change_settings(self, change: Callable[..., None], *given: object) -> None:
        """Change the settings file, then apply it."""
        places = self.cockpit.places

        async def work() -> None:
            await asyncio.to_thread(change, *given, places)

        self.cockpit.ask_swarm(work(), done=lambda _: self._apply_settings())

    def _apply_settings(self) -> None:
        swarm_commands.reload_settings(self.cockpit)
        self._read_upstreams()

    def _try_tool(self) -> None:
        row = self.chosen
        at = self.query_one("#offers", FoldingList).item
        if not isinstance(row, UpstreamView) or at is None or at >= len(row.tools):
            self.notify("Put the cursor on a tool of an upstream first", title="try a tool", markup=False)
            return
        from zoea.tui.dialogs.upstream_forms import TryToolDialog

        self.cockpit.push_screen(TryToolDialog(row.name, row.tools[at]))


def _summary(row: UpstreamView | ProviderView) -> tuple[str, str, str]:
    """Return state, latency and the number of tools or models."""
    latency = f"{row.latency_ms:.0f} ms" if row.latency_ms is not None else number_format.UNKNOWN
    if isinstance(row, UpstreamView):
        return _WORDS.get(row.state, row.state), latency, count_of(len(row.tools), "tool")
    if row.models is None:
        return "failed", latency, ""
    return "limited" if row.throttles else "ready", latency, count_of(len(row.models), "model")


def _role(state: str) -> str:
    return _ROLES.get(state, "errored")


def _about_upstream(row: UpstreamView) -> list[list[Piece]]:
    opened = f" (opening one took {row.open_ms:.0f} ms)" if row.open_ms is not None else ""
    lines: list[list[Piece]] = [
        [
            (one_line(row.name), "strong"),
            (f"  {_summary(row)[0]}", _role(_summary(row)[0])),
            (f"  {row.transport}  {one_line(row.server)}", "quiet"),
            ("  required" if row.required else "", "asking"),
        ],
        [
            (f"{count_of(row.calls, 'call')} since Zoea began, {row.errors} failed, {row.in_flight} running", ""),
            (f"  {count_of(row.sessions, 'connection')}{opened}", "quiet"),
        ],
    ]
    if row.last_error:
        lines.append([(one_line(row.last_error), "errored")])
    lines += [[(one_line(note), "asking")] for note in row.notes]
    return lines


def _about_provider(row: ProviderView) -> list[list[Piece]]:
    state = _summary(row)[0]
    lines: list[list[Piece]] = [
        [
            (one_line(row.name), "strong"),
            (f"  {state}", _role(state)),
            (f"  {one_line(row.label)}" if row.label != row.name else "", "quiet"),
            ("  default" if row.is_default else "", "commander"),
        ],
        [
            (
                "its tokens count against all budgets"
                if row.metered
                else "its tokens do not count against the budget of the day",
                "quiet",
            )
        ],
    ]
    if row.problem:
        lines.append([(one_line(row.problem), "errored"), (f"  {one_line(row.hint)}", "")])
    for limit in row.throttles:
        ends = (
            ""
            if limit.until is None
            else f"no request until {number_format.clock(limit.until, 0, seconds=True)}, then "
        )
        places = f"{count_of(limit.places, 'request')} at a time"
        lines.append([(f"rate limit of {one_line(limit.model) or 'its model'}: {ends}{places}", "asking")])
    return lines
