"""Rules of budgets of tokens and money, and the sentences about them: delays, warnings, refusals. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from zoea.text.amounts import format_dollars

# Share of the budget used, and the delay of the next request (µs).
_BACKPRESSURE = ((1.0, 5_000_000), (0.95, 1_500_000), (0.90, 750_000), (0.85, 300_000), (0.80, 50_000))
_NAMES = {"turn": "Task", "mission": "Mission", "mysis": "Mysis", "swarm": "Swarm", "background": "Background"}
MICROS = 1_000_000
WARN_AT = 0.80
_SPENT = re.compile(r"Swarm budget: \S+?/(\S+) (tokens used|spent) today")


class BudgetLimit(Struct, frozen=True):
    """The limit of one scope; None for no limit. The keys of `_NAMES` are the scopes; `mission` is one message.

    Attributes:
        limit: Tokens, or micros (millionths of a dollar) where `is_money`.
        enforcement: `soft` (slow down), `hard` (refuse) or `approve` (ask the commander).
        is_granted: Whether the commander let this mysis exceed it until it stops.
    """

    limit: int | None
    enforcement: str
    is_granted: bool = False
    is_money: bool = False


class BudgetNeed(Struct, frozen=True):
    """What the next requests need of one budget, in its unit.

    Attributes:
        used: The settled part.
        least: The requests without their answers.
        reserved: The same with the longest answers, which are reserved where the budget is enforced.
    """

    bound: BudgetLimit
    used: int
    least: int
    reserved: int

    @classmethod
    def sum(cls, needs: Sequence[BudgetNeed]) -> BudgetNeed:
        """Return what several requests need of the same budget. Only the last answer may have no room left."""
        least = sum(need.least for need in needs)
        answer = max(need.reserved - need.least for need in needs)
        return cls(needs[0].bound, needs[0].used, least, least + answer)

    @property
    def needed(self) -> int:
        return self.least if self.bound.enforcement == "soft" else self.reserved

    @property
    def left(self) -> int:
        return max(0, (self.bound.limit or 0) - self.used)

    @property
    def is_short(self) -> bool:
        return self.bound.limit is not None and self.needed > self.left


def describe_short(scope: str, name: str, need: BudgetNeed) -> str:
    """Return the sentence for a budget that has less left than a broadcast needs.

    Args:
        name: Of the mysis, for its own budget.
    """
    bound, is_money = need.bound, need.bound.is_money
    left, limit, needed = (_amount(number, is_money) for number in (need.left, bound.limit or 0, need.needed))
    whose, setting = (name, "mysis") if scope == "mysis" else ("the swarm today", "swarm")
    per_day = "_per_day" if scope == "swarm" else ""
    key = f"budget.{setting}{'_money' if is_money else ''}{per_day}"
    unit = "" if is_money else " tokens"
    ends = {
        "soft": "its requests are delayed",
        "approve": "you are asked",
        "hard": "it stops" if scope == "mysis" else "the swarm goes on hold",
    }
    return (
        f"The budget of {whose} ({key}) has {left} of {limit}{unit} left, and this needs about {needed}: "
        f"then {ends[bound.enforcement]}"
    )


def backpressure(used: int, limit: int) -> int:
    """Return how long the next request is delayed, µs, at this usage."""
    share = used / limit if limit else 1.0
    return next((rest for at, rest in _BACKPRESSURE if share >= at), 0)


def has_crossed_warning(before: int, after: int, limit: int) -> bool:
    """True where this request took the turn over 80 % of its budget."""
    return limit > 0 and before / limit < WARN_AT <= after / limit


def as_micros(dollars: float | None) -> int | None:
    """Convert a limit in dollars to millionths of a dollar."""
    return None if dollars is None else round(dollars * MICROS)


def question_key(scope: str, *, is_money: bool) -> str:
    """Return a budget's name in questions to the commander and in what they granted."""
    return f"{scope} money" if is_money else scope


def describe_excess(scope: str, total: int, limit: int, used: int | None = None, *, is_money: bool = False) -> str:
    """Format the message for a request that would take a scope to this total.

    Args:
        used: The settled part, so that the message says the rest and the need of the request.
    """
    left = "" if used is None else f"; {_amount(max(0, limit - used), is_money)} left, this request needs "
    left += "" if used is None else _amount(total - used, is_money)
    unit = "" if is_money else " tokens"
    return f"{_NAMES[scope]} budget exceeded: {_amount(total, is_money)}/{_amount(limit, is_money)}{unit}{left}"


def advise_after_refusal(scope: str, *, is_money: bool = False) -> str:
    """Return what a person can do after a scope refused a request. "" where a hold says it."""
    match scope:
        case "turn":
            return "raise budget.token_budget_per_task, or send the message again with a larger budget"
        case "mission":
            return "send the rest as a new message with a budget of its own"
        case "mysis":
            setting = "budget.mysis_money" if is_money else "budget.mysis"
            return f"raise {setting} in its configuration, start it again, and tell it to go on: this turn is over"
    return ""


def describe_missing_price(scope: str, model: str) -> str:
    """Format the refusal of a request without a known price, under a budget of money."""
    what = f"the price of {model or 'its model'} is not known"
    return f"{_NAMES[scope]} budget of money: {what}; `zoea prices set` sets it"


def describe_spent_day(used: int, total: int, limit: int, *, is_money: bool = False) -> str:
    """Format the reason for a hold: no waiting request fits the rest of today's budget."""
    unit, setting = ("spent", "swarm_money_per_day") if is_money else ("tokens used", "swarm_per_day")
    needs = _amount(total - used, is_money)
    return (
        f"Swarm budget: {_amount(used, is_money)}/{_amount(limit, is_money)} {unit} today,"
        f" and the next request may take {needs}: raise budget.{setting}, then resume"
    )


def is_spent(reason: str) -> bool:
    """Return whether the swarm is on hold for its budget. No request has room in that yet."""
    return _SPENT.match(reason) is not None


def renew_reason(reason: str, tokens: int | None, money: float | None) -> str:
    """Return a hold's reason, with the day's present limit if `describe_spent_day` wrote another."""
    match = _SPENT.match(reason)
    if match is None:
        return reason
    limit, unit = match.groups()
    is_money = unit == "spent"
    present = as_micros(money) if is_money else tokens
    if present is not None and _amount(present, is_money) == limit:
        return reason
    if present is None:
        return "Swarm budget is lifted: resume to go on"
    return f"Swarm budget is now {_amount(present, is_money)}{'' if is_money else ' tokens'}: resume to go on"


def _amount(number: int, is_money: bool) -> str:
    return format_dollars(number) if is_money else f"{number:,}"
