"""The strategies by name: each is a pair of pure functions, `needs` and `packs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from zoea.context.frozen_turn import PLAN_VERSIONS, FrozenTurn
from zoea.context.needs import Need, NeedAnswer, TurnSoFar
from zoea.context.plan_values import Pack
from zoea.context.strategies import ledger_topics, sliding_window, turns
from zoea.model.errors import PlanError

Answers = Mapping[Need, NeedAnswer]
NO_ANSWERS: Answers = MappingProxyType({})


class Strategy(Struct, frozen=True):
    """A name, the reads of a strategy, and its packs. Packs do not depend on `TurnSoFar`.

    `needs` is called with the answers so far, in rounds (see `context/needs.py`): it returns all that it wants by
    then, also what is answered already. `packs` is called once nothing is missing.
    """

    name: str
    needs: Callable[[FrozenTurn, Answers], tuple[Need, ...]]
    packs: Callable[[FrozenTurn, Answers], tuple[Pack, ...]]


STRATEGIES: dict[str, Strategy] = {
    "turns": Strategy("turns", turns.needs, turns.packs),
    "topics": Strategy("topics", ledger_topics.needs, ledger_topics.packs),
    "window": Strategy("window", sliding_window.needs, sliding_window.packs),
}


def needs(frozen: FrozenTurn, answers: Answers = NO_ANSWERS) -> tuple[Need, ...]:
    """Return what the turn's strategy wants to know, given the answers so far.

    Raises:
        PlanError: The strategy or the version of the planning rules is unknown.
    """
    return find_strategy(frozen).needs(frozen, answers)


def missing_needs(frozen: FrozenTurn, answers: Answers = NO_ANSWERS) -> tuple[Need, ...]:
    """Return what the strategy wants and has no answer to, but the turn itself. Raises as `needs` does."""
    return tuple(need for need in needs(frozen, answers) if need not in answers and not isinstance(need, TurnSoFar))


def packs(frozen: FrozenTurn, answers: Answers) -> tuple[Pack, ...]:
    """Return the packs before the turn, in order. Raises as `needs` does."""
    return find_strategy(frozen).packs(frozen, answers)


def find_strategy(frozen: FrozenTurn) -> Strategy:
    """Return the strategy that a turn was opened with."""
    if frozen.plan_version not in PLAN_VERSIONS:
        versions = " and ".join(map(str, PLAN_VERSIONS))
        raise PlanError(
            f"Turn {frozen.turn_number} was opened under planning rules {frozen.plan_version}; this Zoea has "
            f"{versions}.",
            hint="Open the workspace with the Zoea that wrote it, or stop the mysis to end the turn.",
        )
    strategy = STRATEGIES.get(frozen.strategy)
    if strategy is None:
        raise PlanError(
            f"The strategy {frozen.strategy!r} is unknown.",
            hint=f"Set the template's strategy to one of: {', '.join(sorted(STRATEGIES))}.",
        )
    return strategy
