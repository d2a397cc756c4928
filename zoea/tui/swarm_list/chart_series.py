"""Data of charts: named series of numbers over time, and labels of the time axis. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from msgspec import Struct

from zoea.model.enums import Outcome
from zoea.model.status import StatusWord
from zoea.queries.swarm_stats import StatPoint, StatSpan, SwarmStats
from zoea.text.dollars import format_dollars
from zoea.tui import number_format

_TICKS = 6
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
    values: tuple[float, ...]


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
        return f"{series.label} {self.write(sum(series.values) if self.is_sum else series.values[-1])}"

    def is_named(self, series: ChartSeries) -> bool:
        """Return whether there is anything to count of a line now, or in the whole time."""
        return bool(sum(series.values) if self.is_sum else series.values[-1])

    @property
    def has_kinds(self) -> bool:
        """Whether its lines are of several kinds, so that each needs its name."""
        return self.is_sum or len(self.series) > 1

    @property
    def highest(self) -> float:
        """The highest value of all lines; 0 for an empty chart."""
        return max((value for each in self.series for value in each.values), default=0.0)

    def build_scale(self) -> tuple[float, list[float], list[str]]:
        """Return the top of an axis, and its places and round numbers, at most six."""
        least = 1.0 if self.write is _write_count else 10.0 if self.write is _write_tokens else 0.01
        top = max(self.highest, least)
        step = 10.0 ** math.floor(math.log10(top / 5))
        step *= next(factor for factor in (1, 2, 5, 10) if step * factor * 5 >= top)
        step = max(step, 1.0) if self.write is not _write_dollars else step
        count = math.ceil(top / step)
        places = [step * number for number in range(count + 1)]
        return places[-1], places, [self.write(place) for place in places]


def build_charts(stats: SwarmStats) -> dict[str, Chart]:
    """Build the charts by their ids: tokens, spend, myses, turns, waiting."""
    points = stats.points
    newest = points[-1] if points else None
    turns, span = sum(stats.turns.values()), f"last {stats.span}"
    return {
        "tokens": Chart(
            f"TOKENS PER MINUTE · {number_format.tokens(stats.tokens)} in the {span}",
            (ChartSeries("tokens per minute", "llm", tuple(point.tokens_per_minute for point in points)),),
            _write_tokens,
        ),
        "spend": Chart(
            f"SPENT PER MINUTE · {format_dollars(stats.cost_micros)} in the {span}",
            (ChartSeries("dollars", "working", tuple(point.cost_micros / 1_000_000 for point in points)),),
            _write_dollars,
        ),
        "myses": Chart(f"MYSES BY STATUS · {_newest_statuses(newest)} · {span}", _status_series(points)),
        "turns": Chart(f"TURNS BY OUTCOME · {turns:,} in the {span}", _outcome_series(stats), is_sum=True),
        "waiting": Chart(
            f"MESSAGES QUEUED · {newest.waiting if newest else 0:,} now · {span}",
            (ChartSeries("messages", "queued", tuple(float(point.waiting) for point in points)),),
        ),
    }


def _newest_statuses(newest: StatPoint | None) -> str:
    return f"{sum(newest.statuses.values()) if newest else 0:,} now"


def _status_series(points: Iterable[StatPoint]) -> tuple[ChartSeries, ...]:
    points = tuple(points)
    return tuple(
        ChartSeries(str(word), str(word), tuple(float(point.statuses.get(word, 0)) for point in points))
        for word in StatusWord
        if any(point.statuses.get(word) for point in points)
    )


def _outcome_series(stats: SwarmStats) -> tuple[ChartSeries, ...]:
    """Build a line for each frequent outcome, and one for all others."""
    found = [
        ChartSeries(_words(name), role, _of_outcome(stats, (name,)))
        for name, role in _OUTCOME_ROLES.items()
        if stats.turns[name]
    ]
    others = [name for name in stats.turns if name not in _OUTCOME_ROLES]
    return (*found, ChartSeries("other ends", "idle", _of_outcome(stats, others))) if others else tuple(found)


def _of_outcome(stats: SwarmStats, names: Iterable[str]) -> tuple[float, ...]:
    names = tuple(names)
    return tuple(float(sum(_counted(point.turns, names))) for point in stats.points)


def _counted(turns: Mapping[str, int], names: Iterable[str]) -> Iterable[int]:
    counts = Counter(turns)
    return (counts[name] for name in names)


def _words(name: str) -> str:
    return name.replace("_", " ")


def build_ticks(stats: SwarmStats, width: int) -> tuple[list[float], list[str]]:
    """Build the places of time labels, counted from 0, and the labels in local time.

    Args:
        width: Columns of the whole chart.
    """
    count = len(stats.points)
    step = max(1, count // max(1, min(_TICKS, width // _TICK_COLUMNS)))
    places = list(range(count - 1, -1, -step))[::-1]
    form = "%a %d" if stats.span is StatSpan.WEEK else "%H:%M"
    moments = [datetime.fromtimestamp(stats.points[at].at / number_format.SECOND) for at in places]
    return [float(at) for at in places], [moment.strftime(form) for moment in moments]
