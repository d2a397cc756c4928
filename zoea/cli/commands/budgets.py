"""`zoea budgets`: how much of each budget is used, and what one can do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zoea.cli.output import Output
from zoea.process.clock import SystemClock
from zoea.queries.budget_report import BudgetUse, as_json, read_budgets
from zoea.settings import load
from zoea.settings.paths import Places
from zoea.text.dollars import format_dollars
from zoea.text.sentences import count_of

_BAR = 20


def budgets(where: Places) -> Output:
    """Show how much of each budget is used: day, summaries, myses, messages with a total.

    Money is in dollars; requests whose price is not known are counted apart, and `zoea prices` sets prices.
    """
    uses = read_budgets(where.database, load(where).settings, SystemClock().now())
    return Output(as_json(uses), _lines(uses))


def _lines(uses: Sequence[BudgetUse]) -> Iterator[str]:
    width = max(len(one.title) for one in uses)
    for one in uses:
        yield f"{one.title:<{width}}  {_numbers(one)}"
        if one.advice:
            yield f"{'':<{width}}  {one.pressure}: {one.advice}"


def _numbers(one: BudgetUse) -> str:
    filled = min(_BAR, round(one.share * _BAR))
    bar = f"[{'#' * filled}{'.' * (_BAR - filled)}]" if one.limit is not None else " " * (_BAR + 2)
    said = f"{bar} {_amount(one.used, one)}"
    said += f" of {_amount(one.limit, one)}" if one.limit is not None else ", no limit"
    said += "" if one.is_money else " tokens"
    if one.reserved:
        said += f", {_amount(one.reserved, one)} reserved"
    if one.is_money and one.unpriced:
        said += f", and {count_of(one.unpriced, 'request')} of unknown price"
    return f"{said} ({one.enforcement})" if one.limit is not None else said


def _amount(number: int, one: BudgetUse) -> str:
    return format_dollars(number) if one.is_money else f"{number:,}"
