"""The strategies by name: each is a pair of pure functions, `needs` and `packs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from zoea.context.frozen_turn import PLAN_VERSION, FrozenTurn
from zoea.context.needs import Need, NeedAnswer
from zoea.context.plan_values import Pack
from zoea.context.strategies import turns
from zoea.model.errors import PlanError


@dataclass(frozen=True, slots=True)
class Strategy:
    """A name, the reads a strategy needs, and the packs before the turn, which do not depend on `TurnSoFar`."""

    name: str
    needs: Callable[[FrozenTurn], tuple[Need, ...]]
    packs: Callable[[FrozenTurn, Mapping[Need, NeedAnswer]], tuple[Pack, ...]]


STRATEGIES: dict[str, Strategy] = {"turns": Strategy("turns", turns.needs, turns.packs)}


def needs(frozen: FrozenTurn) -> tuple[Need, ...]:
    """Return what the turn's strategy reads from the store.

    Raises:
        PlanError: The strategy or the version of the planning rules is unknown.
    """
    return find_strategy(frozen).needs(frozen)


def packs(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> tuple[Pack, ...]:
    """Return the packs before the turn, in order. Raises as `needs` does."""
    return find_strategy(frozen).packs(frozen, answers)


def find_strategy(frozen: FrozenTurn) -> Strategy:
    """Return the strategy that a turn was opened with."""
    if frozen.plan_version != PLAN_VERSION:
        raise PlanError(
            f"Turn {frozen.turn_number} was opened under planning rules {frozen.plan_version}; "
            f"this Zoea has {PLAN_VERSION}.",
            hint="Open the workspace with the Zoea that wrote it, or stop the mysis to end the turn.",
        )
    found = STRATEGIES.get(frozen.strategy)
    if found is None:
        raise PlanError(
            f"The strategy {frozen.strategy!r} is unknown.",
            hint=f"Set the template's strategy to one of: {', '.join(sorted(STRATEGIES))}.",
        )
    return found
