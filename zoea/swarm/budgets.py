"""Rules of token budgets: backpressure, warnings and refusals. Pure."""

from __future__ import annotations

from msgspec import Struct

from zoea.text.dollars import format_dollars

# Share of the budget used, and the delay of the next request (µs).
_BACKPRESSURE = ((1.0, 5_000_000), (0.95, 1_500_000), (0.90, 750_000), (0.85, 300_000), (0.80, 50_000))
_NAMES = {"turn": "Task", "mission": "Mission", "mysis": "Mysis", "swarm": "Swarm", "background": "Background"}
MICROS = 1_000_000
WARN_AT = 0.80


class BudgetLimit(Struct, frozen=True):
    """The limit of one scope (`turn`, `mission`, `mysis`, `swarm`); None for no limit.

    Attributes:
        limit: Tokens, or micros (millionths of a dollar) where `is_money`.
        enforcement: `soft` (slow down), `hard` (refuse) or `approve` (ask the commander).
        is_granted: Whether the commander let this mysis exceed it until it stops.
    """

    limit: int | None
    enforcement: str = "soft"
    is_granted: bool = False
    is_money: bool = False


def backpressure(used: int, limit: int) -> int:
    """Return how long the next request is delayed, µs, at this usage."""
    share = used / limit if limit else 1.0
    return next((rest for at, rest in _BACKPRESSURE if share >= at), 0)


def crossed_warning(before: int, after: int, limit: int) -> bool:
    """True where this request took the turn over 80 % of its budget."""
    return limit > 0 and before / limit < WARN_AT <= after / limit


def as_micros(dollars: float | None) -> int | None:
    """Convert a limit in dollars to millionths of a dollar."""
    return None if dollars is None else round(dollars * MICROS)


def question_key(scope: str, *, is_money: bool) -> str:
    """Return the name of a budget in questions to the commander, and in what they granted."""
    return f"{scope} money" if is_money else scope


def exceeded(scope: str, total: int, limit: int, used: int | None = None, *, is_money: bool = False) -> str:
    """Format the message for a request that would take a scope to this total.

    Args:
        used: What is settled, so that the message says what is left and what the request needs.
    """
    left = "" if used is None else f"; {_amount(max(0, limit - used), is_money)} left, this request needs "
    left += "" if used is None else _amount(total - used, is_money)
    unit = "" if is_money else " tokens"
    return f"{_NAMES[scope]} budget exceeded: {_amount(total, is_money)}/{_amount(limit, is_money)}{unit}{left}"


def advise_after_refusal(scope: str, *, is_money: bool = False) -> str:
    """Return what a person can do after a scope refused a request; "" where a hold says it."""
    match scope:
        case "turn":
            return "raise budget.token_budget_per_task, or send the message again with a larger budget"
        case "mission":
            return "send the rest as a new message with a budget of its own"
        case "mysis":
            setting = "budget.mysis_money" if is_money else "budget.mysis"
            return f"raise {setting} in its configuration, then start it again"
    return ""


def without_price(scope: str, model: str) -> str:
    """Format the refusal of a request without a known price, under a budget of money."""
    what = f"the price of {model or 'its model'} is not known"
    return f"{_NAMES[scope]} budget of money: {what}; `zoea prices set` sets it"


def spent(used: int, total: int, limit: int, *, is_money: bool = False) -> str:
    """Format the reason for a hold: no waiting request fits the rest of today's budget."""
    unit = "spent" if is_money else "tokens used"
    needs = _amount(total - used, is_money)
    return (
        f"Swarm budget: {_amount(used, is_money)}/{_amount(limit, is_money)} {unit} today,"
        f" and the next request may take {needs}"
    )


def _amount(number: int, is_money: bool) -> str:
    return format_dollars(number) if is_money else f"{number:,}"
