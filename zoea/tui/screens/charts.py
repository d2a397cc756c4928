"""Charts: tokens, spending, myses by status, turns by outcome and waiting messages over time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Grid
from textual.content import Content
from textual_plotext import PlotextPlot

from zoea.model.errors import StoreError
from zoea.queries.swarm_stats import StatSpan, SwarmStats, read_stats
from zoea.tui.commands import actions
from zoea.tui.commands.action import ActionPlace, BoundAction
from zoea.tui.commands.actions import bindings, of
from zoea.tui.screens.tabbed_screen import TabbedScreen
from zoea.tui.swarm_list.chart_series import Chart, build_charts, build_ticks
from zoea.tui.theme.themes import ThemeSpec
from zoea.tui.widgets.status_bars import KeyFooter, PieceLine

_SPANS = tuple(StatSpan)
_AGAIN_S = 15
"""Seconds between two reads; a row is stored each minute."""
_BRIGHT = re.compile(r"ansi_(bright_)?(\w+)")
_ANSI_NAMES = {"yellow": "orange", "black": "gray"}

PlotColour = str | tuple[int, int, int]


class StatPlot(PlotextPlot, can_focus=True):
    """One chart; `put` draws it in the colours of a theme."""

    _drawn: tuple[Chart, SwarmStats, ThemeSpec, bool] | None = None

    def put(self, chart: Chart, stats: SwarmStats, theme: ThemeSpec, *, is_ascii: bool) -> None:
        """Draw the series; the lower border names those of several kinds, also where only one kind is drawn."""
        self._drawn = (chart, stats, theme, is_ascii)
        self.theme = "clear"  # the widget's own colours
        self.border_title = Content(chart.title)
        plot = self.plt
        plot.clear_figure()
        places, labels = build_ticks(stats, self.size.width)
        for each in chart.series:
            plot.plot(
                list(range(len(each.values))),
                list(each.values),
                marker="x" if is_ascii else "braille",
                color=plot_colour(theme.roles[each.role]),
            )
        top, heights, numbers = chart.build_scale()
        plot.ylim(0, top)
        plot.yticks(heights, numbers)
        plot.xlim(0, len(stats.points) - 1)
        plot.xticks(places, labels)
        plot.xaxes(True, False)
        plot.yaxes(True, False)
        named = [(chart.describe(each), f"$role-{each.role}") for each in chart.series if chart.is_named(each)]
        parts = [part for name in named for part in (", ", name)][1:] if chart.has_kinds else []
        is_first = not stats.turns and not stats.tokens and not stats.points[-1].statuses
        self.border_subtitle = Content.assemble(*(parts or ("nothing is stored yet" if is_first else "",)))
        self.refresh()

    def on_resize(self) -> None:
        """Draw again: how many times the axis names depends on the width."""
        if self._drawn is not None:
            chart, stats, theme, is_ascii = self._drawn
            self.put(chart, stats, theme, is_ascii=is_ascii)


class ChartsScreen(TabbedScreen):
    """All charts side by side where there is room, else one at a time."""

    CSS_PATH = "charts.tcss"
    PLACES: ClassVar[tuple[ActionPlace, ...]] = (ActionPlace.EVERYWHERE, ActionPlace.CHARTS)
    PARTS: ClassVar[tuple[str, ...]] = ("tokens", "spend", "myses", "turns", "waiting")
    PART_TITLES: ClassVar[dict[str, str]] = {
        "tokens": "TOKENS",
        "spend": "SPENT",
        "myses": "MYSES",
        "turns": "TURNS",
        "waiting": "QUEUED",
    }
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(of(ActionPlace.CHARTS))]

    def __init__(self) -> None:
        super().__init__()
        self.span = StatSpan.HOUR
        self.stats: SwarmStats | None = None
        self._seconds = 0

    def bind_actions(self) -> Iterable[BoundAction]:
        return (
            actions.APP_BACK.bind(self.back),
            actions.CHARTS_SHORTER.bind(lambda: self._change_span(-1)),
            actions.CHARTS_LONGER.bind(lambda: self._change_span(1)),
        )

    def compose(self) -> ComposeResult:
        yield PieceLine(id="top")
        yield self.strip()
        with Grid(id="charts"):
            for part in self.PARTS:
                yield StatPlot(id=part, classes="panel")
        yield KeyFooter(id="keys")

    def on_mount(self) -> None:
        super().on_mount()
        self._read()

    def back(self) -> None:
        self.cockpit.pop_screen()

    def tick(self) -> None:
        """Read again while the screen is open."""
        super().tick()
        self._seconds += 1
        if self._seconds % _AGAIN_S == 0:
            self._read()

    def theme_changed(self) -> None:
        super().theme_changed()
        self._draw()

    def _change_span(self, by: int) -> None:
        place = min(len(_SPANS) - 1, max(0, _SPANS.index(self.span) + by))
        self.span = _SPANS[place]
        self._read()

    @work(exclusive=True, exit_on_error=False, group="stats")
    async def _read(self) -> None:
        opened = self.cockpit.opened
        if opened is None:
            return
        try:
            self.stats = await asyncio.to_thread(read_stats, opened.database, self.span, self.cockpit.now())
        except StoreError as error:
            self.cockpit.show_error(error)
            return
        self._draw()

    def _draw(self) -> None:
        stats, cockpit = self.stats, self.cockpit
        if stats is None or not self.is_mounted:
            return
        for part, chart in build_charts(stats).items():
            plot = self.query_one(f"#{part}", StatPlot)
            plot.put(chart, stats, cockpit.theme_spec, is_ascii=cockpit.is_ascii)


def plot_colour(colour: str) -> PlotColour:
    """Return a theme's colour for Plotext: red, green and blue, or a terminal colour's name."""
    found = _BRIGHT.fullmatch(colour)
    if found is None:
        return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
    bright, name = found.groups()
    if name in ("default", "white"):
        return name
    return _ANSI_NAMES.get(name, name) + ("+" if bright else "")
