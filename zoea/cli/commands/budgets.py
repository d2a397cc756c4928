"""`zoea budgets`: how much of each budget is used, and what one can do."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from zoea.process.clock import SystemClock
from zoea.process.command_line import WORKSPACE_HELP, LightCommand, flag, option
from zoea.queries.budget_report import BudgetUse, as_json, read_budgets
from zoea.settings import load
from zoea.settings.paths import places
from zoea.text.control_characters import strip
from zoea.text.dollars import format_dollars
from zoea.text.large_json import dump_shown
from zoea.text.sentences import count_of

_BAR = 20


@dataclass(frozen=True, slots=True)
class BudgetsOptions:
    """The command line of `zoea budgets`."""

    as_json: bool = flag("--json", "Write JSON.")
    workspace: str = option("-w", "--workspace", metavar="NAME", text=WORKSPACE_HELP)


def write_budgets(options: BudgetsOptions) -> int:
    """Show how much of each budget is used: day, summaries, myses, messages with a total.

    Money is in dollars; requests whose price is not known are counted apart, and `zoea prices` sets prices.
    """
    where = places(options.workspace)
    found = read_budgets(where.database, load(where).settings, SystemClock().now())
    if options.as_json:
        sys.stdout.write(dump_shown(as_json(found)) + "\n")
        return 0
    width = max(len(one.title) for one in found)
    for one in found:
        sys.stdout.write(strip(f"{one.title:<{width}}  {_numbers(one)}") + "\n")
        if one.advice:
            sys.stdout.write(strip(f"{'':<{width}}  {one.pressure}: {one.advice}") + "\n")
    return 0


command = LightCommand("budgets", BudgetsOptions, write_budgets)


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
