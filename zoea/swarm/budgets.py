"""What the budget of a turn says before a request. Pure. Source: planner.md, "Budgets"."""

from __future__ import annotations

from dataclasses import dataclass

# Share of the budget already used, and how long the next request rests for it (µs).
_BACKPRESSURE = ((1.0, 5_000_000), (0.95, 1_500_000), (0.90, 750_000), (0.85, 300_000), (0.80, 50_000))
WARN_AT = 0.80


@dataclass(frozen=True, slots=True)
class TaskVerdict:
    """Refused with a sentence, or go on after a rest of so many µs."""

    refused: str = ""
    rest_us: int = 0


def judge_task(used: int, asked: int, limit: int, enforcement: str) -> TaskVerdict:
    """What a turn that has used so many tokens may do, asking for so many more.

    `approve` has nobody to ask yet and refuses like `hard`.
    """
    if used + asked > limit and enforcement != "soft":
        return TaskVerdict(refused=f"Task budget exceeded: {used + asked:,}/{limit:,} tokens")
    share = used / limit if limit else 1.0
    rest = next((rest for at, rest in _BACKPRESSURE if share >= at), 0)
    return TaskVerdict(rest_us=rest)


def crossed_warning(before: int, after: int, limit: int) -> bool:
    """True where this request took the turn over 80 % of its budget."""
    return limit > 0 and before / limit < WARN_AT <= after / limit
