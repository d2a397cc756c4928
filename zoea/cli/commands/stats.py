"""`zoea stats` and `zoea metrics`: what the swarm did, as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from zoea.cli.output import Output
from zoea.ipc.codec import encode
from zoea.process.clock import SystemClock
from zoea.process.command_line import choice, option
from zoea.queries.budget_report import BudgetUse, as_json, read_budgets
from zoea.queries.model_records import Calibration, read_calibrations
from zoea.queries.swarm_stats import StatPoint, StatSpan, SwarmStats, read_stats
from zoea.settings.layers import load
from zoea.settings.paths import Places
from zoea.swarm.persistence.spend_ops import LEAST_SAMPLES
from zoea.text.amounts import format_dollars
from zoea.text.sentences import count_of

_MOST_LINES = 24
_BAR = 20


def stats(
    where: Places, span: StatSpan = option("--last SPAN", "hour, day or week.", StatSpan.HOUR, choice(StatSpan))
) -> Output:
    """Show tokens, spending, myses by status, turns by outcome and waiting messages over time.

    Each budget follows, with what you can do where little of it is left. Requests whose price is not known are counted
    apart; `zoea prices` sets prices. The last lines compare the token estimates of each model with what its provider
    counted in the last week.
    """
    now = SystemClock().now()
    report = read_stats(where.database, span, now)
    calibrations = read_calibrations(where.database)
    budgets = read_budgets(where.database, load(where).settings, now)
    totals = {"tokens": report.tokens, "cost_micros": report.cost_micros, "turns": dict(report.turns)}
    return Output(
        encode(report) | totals | {"budgets": as_json(budgets), "calibrations": calibrations},
        [_table(report), "", *_budget_lines(budgets), *map(_describe_calibration, calibrations)],
    )


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


def _table(stats: SwarmStats) -> str:
    """Build the totals, then a line for each time with activity, the newest last."""
    turns = _counts(stats.turns) or "none"
    lines = [
        f"last {stats.span}: {stats.tokens:,} tokens, {format_dollars(stats.cost_micros)}, turns: {turns}",
        "",
        f"{'FROM':<16}  {'TOKENS':>9}  {'A MINUTE':>9}  {'SPENT':>7}  {'WAITING':>7}  MYSES, TURNS",
    ]
    busy = [point for point in stats.points if point.statuses or point.tokens or point.turns]
    if not busy:
        return (
            f"{lines[0]}\nNo swarm ran in this time, or not yet for a minute: a running swarm stores a row each minute."
        )
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


def _budget_lines(uses: Sequence[BudgetUse]) -> Iterator[str]:
    """Describe each budget and what can be done: day, summaries, myses, messages with a total."""
    width = max(len(one.title) for one in uses)
    for one in uses:
        yield f"{one.title:<{width}}  {_budget_use(one)}"
        if one.advice:
            yield f"{'':<{width}}  {one.pressure}: {one.advice}"


def _budget_use(one: BudgetUse) -> str:
    filled = min(_BAR, round(one.share * _BAR))
    bar = f"[{'#' * filled}{'.' * (_BAR - filled)}]" if one.limit is not None else " " * (_BAR + 2)
    text = f"{bar} {_amount(one.used, one)}"
    text += f" of {_amount(one.limit, one)}" if one.limit is not None else ", no limit"
    text += "" if one.is_money else " tokens"
    if one.reserved:
        text += f", {_amount(one.reserved, one)} reserved"
    if one.is_money and one.unpriced:
        text += f", and {count_of(one.unpriced, 'request')} of unknown price"
    return f"{text} ({one.at_limit})" if one.limit is not None else text


def _amount(number: int, one: BudgetUse) -> str:
    return format_dollars(number) if one.is_money else f"{number:,}"


def metrics(where: Places) -> str:
    """Print the metrics in the text format of Prometheus, with or without a running swarm.

    They count all that is stored. A swarm that was started with --metrics serves the same numbers counted from its
    start, and how long the database takes to store something.
    """
    from zoea.runtime.swarm_metrics import SwarmMetrics  # loads the client of Prometheus

    settings = load(where).settings
    made = SwarmMetrics(where.database, lambda: settings, SystemClock().now)
    return made.render().decode().removesuffix("\n")
