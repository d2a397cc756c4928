"""`zoea stats`: what the swarm did in the last hour, day or week, as numbers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from zoea.ipc.codec import encode
from zoea.model.errors import UsageError
from zoea.process.clock import SystemClock
from zoea.process.command_line import WORKSPACE_HELP, LightCommand, flag, option
from zoea.queries.budget_report import as_json, read_budgets
from zoea.queries.calibrations import Calibration, read_calibrations
from zoea.queries.swarm_stats import StatPoint, StatSpan, SwarmStats, read_stats
from zoea.settings import load
from zoea.settings.paths import places
from zoea.swarm.persistence.spend_ops import LEAST_SAMPLES
from zoea.text.control_characters import strip
from zoea.text.dollars import format_dollars
from zoea.text.large_json import dump_shown

_MOST_LINES = 24


def _check_span(text: str) -> str:
    """Return the name of a span. Raises UsageError."""
    try:
        return StatSpan(text).value
    except ValueError:
        raise UsageError(f"the time {text!r} is not known", hint=f"Use one of {', '.join(StatSpan)}.") from None


@dataclass(frozen=True, slots=True)
class StatsOptions:
    """The command line of `zoea stats`."""

    span: str = option(
        "--last", metavar="SPAN", text="The last hour (the default), day or week.", default="hour", parse=_check_span
    )
    as_json: bool = flag("--json", "Write JSON.")
    workspace: str = option("-w", "--workspace", metavar="NAME", text=WORKSPACE_HELP)


def write_stats(options: StatsOptions) -> int:
    """Show tokens, spending, myses by status, turns by outcome and waiting messages over time.

    The last lines compare the token estimates of each model with what its provider counted in the last week.
    """
    where, now = places(options.workspace), SystemClock().now()
    stats = read_stats(where.database, StatSpan(options.span), now)
    calibrations = read_calibrations(where.database)
    if options.as_json:
        budgets = as_json(read_budgets(where.database, load(where).settings, now))
        more = {"budgets": budgets, "calibrations": encode(calibrations)}
        text = dump_shown(encode(stats) | _totals(stats) | more)
    else:
        text = "\n".join([_table(stats), *map(_describe_calibration, calibrations)])
    sys.stdout.write(strip(text) + "\n")
    return 0


def describe_stats(database: Path, span: str) -> str:
    """Return the numbers of a span as a table. An empty span is the last hour. Raises UsageError and StoreError."""
    return _table(read_stats(database, StatSpan(_check_span(span or StatSpan.HOUR)), SystemClock().now()))


command = LightCommand("stats", StatsOptions, write_stats)


def _describe_calibration(one: Calibration) -> str:
    """Compare the estimates of a model with its provider's counts, and name the correcting factor."""
    name = f"{one.provider}/{one.model}" if one.model else one.provider
    ratio = f"{one.reported / one.estimated:.2f}" if one.estimated else "?"
    is_used = "" if one.samples >= LEAST_SAMPLES else f" (used from {LEAST_SAMPLES} on)"
    return (
        f"{name}: {one.reported:,} tokens reported for {one.estimated:,} estimated, {ratio} times as many; "
        f"estimates are multiplied by {one.factor:.2f}, learnt from {one.samples}{is_used}; "
        f"largest error {one.largest_error:.0%}"
    )


def _totals(stats: SwarmStats) -> dict[str, object]:
    return {"tokens": stats.tokens, "cost_micros": stats.cost_micros, "turns": dict(stats.turns)}


def _table(stats: SwarmStats) -> str:
    """Build the totals, then one line for each time in which something happened, the newest last."""
    turns = _counts(stats.turns) or "none"
    lines = [
        f"last {stats.span}: {stats.tokens:,} tokens, {format_dollars(stats.cost_micros)}, turns: {turns}",
        "",
        f"{'FROM':<16}  {'TOKENS':>9}  {'A MINUTE':>9}  {'SPENT':>7}  {'WAITING':>7}  MYSES, TURNS",
    ]
    busy = [point for point in stats.points if point.statuses or point.tokens or point.turns]
    if not busy:
        return f"{lines[0]}\nNo swarm ran in this time; a running swarm stores a row each minute."
    if len(busy) > _MOST_LINES:
        lines.append(f"({len(busy) - _MOST_LINES} earlier lines: --json shows all)")
    return "\n".join([*lines, *map(_line, busy[-_MOST_LINES:])])


def _line(point: StatPoint) -> str:
    at = datetime.fromtimestamp(point.at / 1_000_000)
    words = "; ".join(part for part in (_counts(point.statuses), _counts(point.turns)) if part)
    spent = format_dollars(point.cost_micros)
    rate = f"{point.tokens_per_minute:,.0f}"
    return f"{at:%Y-%m-%d %H:%M}  {point.tokens:>9,}  {rate:>9}  {spent:>7}  {point.waiting:>7}  {words}"


def _counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counted.items() if count)
