"""Rules of token budgets: backpressure, warnings and refusals. Pure."""

from __future__ import annotations

from dataclasses import dataclass

# Share of the budget used, and the delay of the next request (µs).
_BACKPRESSURE = ((1.0, 5_000_000), (0.95, 1_500_000), (0.90, 750_000), (0.85, 300_000), (0.80, 50_000))
_NAMES = {"turn": "Task", "mysis": "Mysis", "swarm": "Swarm"}
WARN_AT = 0.80


@dataclass(frozen=True, slots=True)
class BudgetLimit:
    """The token limit of one scope (`turn`, `mysis`, `swarm`); None for no limit.

    `enforcement` is `soft` (slow down), `hard` (refuse) or `approve` (ask the commander);
    `is_granted` is True where the commander let this mysis exceed it until it stops.
    """

    limit: int | None
    enforcement: str = "soft"
    is_granted: bool = False


def backpressure(used: int, limit: int) -> int:
    """Return how long the next request is delayed, µs, at this usage."""
    share = used / limit if limit else 1.0
    return next((rest for at, rest in _BACKPRESSURE if share >= at), 0)


def crossed_warning(before: int, after: int, limit: int) -> bool:
    """True where this request took the turn over 80 % of its budget."""
    return limit > 0 and before / limit < WARN_AT <= after / limit


def exceeded(scope: str, tokens: int, limit: int) -> str:
    """Format the message for a request that would take a scope to this many tokens."""
    return f"{_NAMES[scope]} budget exceeded: {tokens:,}/{limit:,} tokens"


def spent(used: int, tokens: int, limit: int) -> str:
    """Format the reason for a hold: no request that waits fits into what the swarm has left today."""
    return f"Swarm budget: {used:,}/{limit:,} tokens used today, and the next request may take {tokens - used:,}"
