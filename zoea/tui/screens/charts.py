"""Charts: tokens, spending, myses by status, turns by outcome and waiting messages over time.

A chart is named series of numbers; Plotext draws it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Grid
from textual.content import Content
from textual_plotext import PlotextPlot

from zoea.model.enums import Outcome
from zoea.model.status import StatusWord
from zoea.model.values import MysisView
from zoea.queries.swarm_stats import StatPoint, StatSpan, SwarmStats, read_stats
from zoea.text.amounts import format_dollars
from zoea.text.control_characters import one_line
from zoea.tui import number_format
from zoea.tui.commands.action import ActionPlace, Handlers
from zoea.tui.screens.tabbed_screen import TabbedScreen
from zoea.tui.state.deferred_work import reread
from zoea.tui.swarm_list.mysis_row import NAME_MAX
from zoea.tui.text_layout import Piece, fit_text
from zoea.tui.theme.themes import ThemeSpec
from zoea.tui.widgets.clickable_text import TextBlock

_TICKS = 6
_TICK_MINUTES = (1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 240, 360, 480, 720, 1440, 2880, 4320, 7 * 1440)
"""Minutes between two labels."""
_FACTORS = (1, 2, 5, 10, 20, 50)
"""Round numbers between two labels of the upright axis, in powers of ten."""
_APART, _ROOM_ABOVE = 2, 1.6
"""Rows from one label to the next, and how much higher than needed the axis may be for more of them."""
_BELOW = 2
"""Rows of a plot below its values: the axis and the times."""
LEAST_POINTS = 10
"""Points of a chart at least, also where less is known."""
_TICK_COLUMNS = 12
"""Columns of a chart for each label. Of two labels that meet, Plotext leaves out one at random."""
_OUTCOME_ROLES = {
    Outcome.ANSWERED: "done",
    Outcome.ITERATION_LIMIT: "waiting",
    Outcome.FAILED: "errored",
    Outcome.TIMEOUT: "asking",
}


def _write_count(value: float) -> str:
    return f"{value:,.0f}"


def _write_tokens(value: float) -> str:
    return number_format.tokens(round(value))


def _write_dollars(value: float) -> str:
    return format_dollars(value * 1_000_000)


class ChartSeries(Struct, frozen=True):
    """One line of a chart; `role` is the theme's role of its colour."""

    label: str
    role: str
    values: tuple[float | None, ...]
    """None where it is not known what the swarm did."""

    @property
    def known(self) -> list[float]:
        return [value for value in self.values if value is not None]

    @property
    def newest(self) -> float:
        return (self.values[-1] if self.values else None) or 0.0

    def runs(self) -> Iterator[tuple[list[int], list[float]]]:
        """Yield places and values of each unbroken run of known values."""
        for is_known, run in groupby(enumerate(self.values), lambda pair: pair[1] is not None):
            if is_known:
                found = list(run)
                yield [at for at, _ in found], [value or 0.0 for _, value in found]


class Chart(Struct, frozen=True):
    """One chart: its title with a number, its lines, and the format of its numbers.

    `is_sum` says that the values of a line add up, as the turns of each minute do.
    """

    title: str
    series: tuple[ChartSeries, ...]
    write: Callable[[float], str] = _write_count
    is_sum: bool = False

    def describe(self, series: ChartSeries) -> str:
        """Return a line's label with its total or newest value, as the title counts."""
        return f"{series.label} {self.write(sum(series.known) if self.is_sum else series.newest)}"

    def is_named(self, series: ChartSeries) -> bool:
        """Return whether a line has anything to count now, or in the whole time."""
        return bool(sum(series.known) if self.is_sum else series.newest)

    @property
    def has_kinds(self) -> bool:
        """Whether its lines are of several kinds, so that each needs its name."""
        return self.is_sum or len(self.series) > 1

    @property
    def highest(self) -> float:
        """The highest value of all lines; 0 for an empty chart."""
        return max((value for each in self.series for value in each.known), default=0.0)

    def build_scale(self, rows: int) -> tuple[float, list[float], list[str]]:
        """Return the top of an axis, and its places and round numbers. Each is as many rows above the one before.

        Args:
            rows: Of the axis, its lowest one included.
        """
        least = 1.0 if self.write is _write_count else 10.0 if self.write is _write_tokens else 0.01
        highest, gaps = max(self.highest, least), max(1, rows - 1)
        unit = 10.0 ** math.floor(math.log10(highest / 5))
        whole = 0.0 if self.write is _write_dollars else 1.0
        steps = [each for factor in _FACTORS if (each := unit * factor) >= whole and each * 5 >= highest]
        # Each step has the same rows, from which the top follows. Of the lowest tops the one with most numbers is best.
        rows_of = [(step, gaps // math.ceil(highest / step)) for step in steps]
        tops = [(step, each, step * gaps / each) for step, each in rows_of if each >= min(_APART, gaps)]
        most = min(top for _, _, top in tops) * _ROOM_ABOVE
        step, each, top = next(one for one in tops if one[2] <= most)
        places = [step * number for number in range(gaps // each + 1)]
        return top, places, [self.write(place) for place in places]


def build_charts(stats: SwarmStats) -> dict[str, Chart]:
    """Build the charts by their ids: tokens, spend, myses, turns, waiting."""
    points = stats.points
    newest = points[-1] if points else None
    turns, span = sum(stats.turns.values()), f"last {stats.span}"
    living = sum(newest.statuses.values()) if newest else 0
    return {
        "tokens": Chart(
            f"TOKENS PER MINUTE · {number_format.tokens(stats.tokens)} in the {span}",
            (ChartSeries("tokens per minute", "llm", _values(points, lambda point: point.tokens_per_minute)),),
            _write_tokens,
        ),
        "spend": Chart(
            f"SPENT PER MINUTE · {format_dollars(stats.cost_micros)} in the {span}",
            (ChartSeries("dollars", "working", _values(points, lambda point: point.cost_micros / 1_000_000)),),
            _write_dollars,
        ),
        "myses": Chart(f"MYSES BY STATUS · {living:,} now · {span}", _status_series(points)),
        "turns": Chart(f"TURNS BY OUTCOME · {turns:,} in the {span}", _outcome_series(stats), is_sum=True),
        "waiting": Chart(
            f"MESSAGES QUEUED · {newest.waiting if newest else 0:,} now · {span}",
            (ChartSeries("messages", "queued", _values(points, lambda point: float(point.waiting))),),
        ),
    }


def _status_series(points: Iterable[StatPoint]) -> tuple[ChartSeries, ...]:
    points = tuple(points)
    return tuple(
        ChartSeries(str(word), str(word), _values(points, partial(_count_status, word)))
        for word in StatusWord
        if any(point.statuses.get(word) for point in points)
    )


def _outcome_series(stats: SwarmStats) -> tuple[ChartSeries, ...]:
    """Build a line for each frequent outcome, and one for all others."""
    found = [
        ChartSeries(name.replace("_", " "), role, _of_outcome(stats, (name,)))
        for name, role in _OUTCOME_ROLES.items()
        if stats.turns[name]
    ]
    others = [name for name in stats.turns if name not in _OUTCOME_ROLES]
    return (*found, ChartSeries("other ends", "idle", _of_outcome(stats, others))) if others else tuple(found)


def _values(points: Iterable[StatPoint], count: Callable[[StatPoint], float]) -> tuple[float | None, ...]:
    """Return a value for each point. None where no swarm ran, because 0 would be a count."""
    return tuple(count(point) if point.is_known else None for point in points)


def _count_status(word: str, point: StatPoint) -> float:
    return float(point.statuses.get(word, 0))


def _of_outcome(stats: SwarmStats, names: Iterable[str]) -> tuple[float | None, ...]:
    names = tuple(names)
    return _values(stats.points, lambda point: float(sum(point.turns.get(name, 0) for name in names)))


def trim_unknown(stats: SwarmStats) -> SwarmStats:
    """Drop the time before the first known point, down to `LEAST_POINTS` points."""
    first = next((at for at, point in enumerate(stats.points) if point.is_known), len(stats.points))
    return replace(stats, points=stats.points[max(0, min(first, len(stats.points) - LEAST_POINTS)) :])


def build_ticks(stats: SwarmStats, width: int) -> tuple[list[float], list[str]]:
    """Build the places of time labels, counted from 0, and the labels in local time.

    Args:
        width: Columns of the whole chart.
    """
    count = len(stats.points)
    most = max(1, min(_TICKS, width // _TICK_COLUMNS))
    least = -(-count // most)
    steps = (minutes // stats.span.step for minutes in _TICK_MINUTES if minutes % stats.span.step == 0)
    step = next((one for one in steps if one >= least), least)
    places = list(range(count - 1, -1, -step))[::-1]
    form = "%a %d" if stats.span is StatSpan.WEEK else "%H:%M"
    moments = [datetime.fromtimestamp(stats.points[at].at / number_format.SECOND) for at in places]
    return [float(at) for at in places], [moment.strftime(form) for moment in moments]


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
        """Draw the series. The lower border names those of several kinds, also where only one kind is drawn."""
        self._drawn = (chart, stats, theme, is_ascii)
        self.theme = "clear"  # the widget's own colours
        self.border_title = Content(chart.title)
        plot = self.plt
        plot.clear_figure()
        places, labels = build_ticks(stats, self.size.width)
        for each in chart.series:
            for places_known, values in each.runs():
                plot.plot(
                    places_known,
                    values,
                    marker="x" if is_ascii else "braille",
                    color=plot_colour(theme.roles[each.role]),
                )
        top, heights, numbers = chart.build_scale(self.size.height - _BELOW)
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


class SpenderList(TextBlock, can_focus=True):
    """The myses that used most, as `build_spender_lines` writes them."""


def build_spender_lines(
    views: Sequence[MysisView], width: int, height: int, bars: tuple[str, str]
) -> list[list[Piece]]:
    """Build a line for each of the `height` myses that cost most. Tokens count where none cost anything."""
    ranked = sorted(views, key=lambda view: (-(view.cost_micros or 0), -view.tokens, view.id))
    shown = [view for view in ranked if view.tokens][: max(0, height)]
    if not shown:
        return [[("No mysis has used a token yet", "quiet")]]
    name = min(NAME_MAX, max(cell_len(one_line(view.name)) for view in shown))
    has_cost = bool(shown[0].cost_micros)
    most = max((view.cost_micros or 0) if has_cost else view.tokens for view in shown)
    lines: list[list[Piece]] = []
    for view in shown:
        share = ((view.cost_micros or 0) if has_cost else view.tokens) / most
        cost = format_dollars(view.cost_micros) if view.cost_micros is not None else number_format.UNKNOWN
        numbers = f"{number_format.tokens(view.tokens):>7} tokens {cost:>9}"
        filled, empty = number_format.bar(share, max(1, width - name - len(numbers) - 2), bars)
        lines.append(
            [(f"{fit_text(one_line(view.name), name)} ", ""), (filled, "llm"), (empty, "quiet"), (f" {numbers}", "")]
        )
    return lines


class ChartsScreen(TabbedScreen):
    """Shows all charts and the top spenders side by side. Without the room it shows one at a time."""

    CSS_PATH = "charts.tcss"
    PLACE = ActionPlace.CHARTS
    PARTS: ClassVar[dict[str, str]] = {
        "tokens": "TOKENS",
        "spenders": "BY MYSIS",
        "spend": "COST",
        "myses": "MYSES",
        "turns": "TURNS",
        "waiting": "QUEUED",
    }

    def __init__(self) -> None:
        super().__init__()
        self.span = StatSpan.HOUR
        self.stats: SwarmStats | None = None
        self._drawn: dict[str, int] = {}
        self._seconds = 0

    def bind_actions(self) -> Handlers:
        return {"charts.shorter": lambda: self._change_span(-1), "charts.longer": lambda: self._change_span(1)}

    def compose_body(self) -> ComposeResult:
        yield self.strip()
        with Grid(id="charts"):
            for part in self.PARTS:
                yield (SpenderList if part == "spenders" else StatPlot)(id=part, classes="panel chart")

    def on_mount(self) -> None:
        self._read()

    def tick(self) -> None:
        """Read again while the screen is open. The statuses of this moment are those of the header."""
        super().tick()
        self._seconds += 1
        if self._seconds % _AGAIN_S == 0:
            self._read()
        elif self.stats is not None and self._drawn != self._count_present():
            self._draw()

    def theme_changed(self) -> None:
        super().theme_changed()
        self._draw()

    def _change_span(self, by: int) -> None:
        place = min(len(_SPANS) - 1, max(0, _SPANS.index(self.span) + by))
        self.span = _SPANS[place]
        self._read()

    @reread
    async def _read(self) -> None:
        span = self.span
        stats = await self.read(read_stats, span, self.cockpit.now(), self._count_present())
        if stats is not None and span == self.span:
            self.stats = trim_unknown(stats)
            self._draw()

    def _count_present(self) -> dict[str, int]:
        """Count the myses by status; empty where the swarm does not run."""
        cockpit, feed = self.cockpit, self.cockpit.feed
        opened = cockpit.opened
        runs = not feed.lost and opened is not None and (opened.runs or not opened.read_only_reason)
        return {str(word): count for word, count in feed.roster.statuses.items() if count and runs}

    def _draw(self) -> None:
        stats, cockpit, self._drawn = self.stats, self.cockpit, self._count_present()
        if stats is None or not self.is_mounted:
            return
        if self._drawn:
            stats = replace(stats, points=(*stats.points[:-1], replace(stats.points[-1], statuses=self._drawn)))
        for part, chart in build_charts(stats).items():
            plot = self.query_one(f"#{part}", StatPlot)
            plot.put(chart, stats, cockpit.theme_spec, is_ascii=cockpit.is_ascii)
        self._draw_spenders()

    @on(TextBlock.Sized)
    def _draw_spenders(self) -> None:
        panel = self.query_one(SpenderList)
        panel.border_title = "TOP SPENDERS · all their turns"
        size = panel.content_size
        views, bars = self.cockpit.feed.in_order(), ("#", ".") if self.cockpit.is_ascii else ("━", "─")
        panel.put(build_spender_lines(views, size.width, size.height, bars))


def plot_colour(colour: str) -> PlotColour:
    """Return a theme's colour for Plotext: red, green and blue, or a terminal colour's name."""
    found = _BRIGHT.fullmatch(colour)
    if found is None:
        return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
    bright, name = found.groups()
    if name in ("default", "white"):
        return name
    return _ANSI_NAMES.get(name, name) + ("+" if bright else "")
