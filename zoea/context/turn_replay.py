"""Replay the current turn beside its packs, as if each part led to a request.

Packs are chosen before the first answer. After that a choice changes only when the request outgrows its budget, and
then down to `HEADROOM`, so that a provider's prompt cache is rarely lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from zoea.context.candidates import NO_SIZE, PackCandidate, PackMeter, Size, measure_packs, sort_by_priority
from zoea.context.compaction import CompactedTurn
from zoea.context.frozen_turn import FrozenTurn, Limit, request_limit
from zoea.context.needs import Need, NeedAnswer, TurnSoFar
from zoea.context.plan_values import Pack, PackStatus, PlanStep, Priority, Reason, StepKind, Variant
from zoea.context.selection import choose_packs
from zoea.context.turn_packs import tools_pack, turn_pack, turn_units
from zoea.context.units import OmittedMemory, Unit, UnitKind

HEADROOM = 0.7
"""The share of the budget that a compaction aims for."""


class TurnReplay(Struct, frozen=True):
    """The replayed part of a turn, which a later plan of the turn extends. It is a cache: never stored, never changed.

    Attributes:
        past: The answers to the needs other than `TurnSoFar`.
        opening: The number of units before the first answer; packs are chosen after them.
        others: The packs other than the turn, as decided by the replay.
    """

    frozen: FrozenTurn
    past: Mapping[Need, NeedAnswer]
    units: tuple[Unit, ...]
    opening: int
    state: CompactedTurn
    others: tuple[PackCandidate, ...]


class CurrentTurn:
    """The turn that a request is for, as a pack compacted while it grows.

    Attributes:
        replay: What the next plan of the turn may pass as `earlier`; set by `choose`.
        steps: The changes to its own memories; set by `choose`.
        left_out: The memories that no valid request can hold.
    """

    replay: TurnReplay
    steps: list[PlanStep]

    def __init__(
        self, frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer], earlier: TurnReplay | None = None
    ) -> None:
        self.frozen = frozen
        self.answers = answers
        self.bound = request_limit(frozen)
        self._earlier = earlier
        self._units: list[Unit]
        self.left_out: list[OmittedMemory]
        self._units, self.left_out = turn_units(frozen, answers)

    @property
    def grown(self) -> int:
        """The tokens that it would take without compaction."""
        return self.replay.state.grown

    def choose(self, packs: Callable[[], Sequence[Pack]], scale: PackMeter) -> list[PackCandidate]:
        """Return the packs as they are chosen now, the turn behind them, and its tools.

        `packs` is called where nothing was replayed before.
        """
        self.replay = replay_turn(self.frozen, self.answers, self._units, self._earlier, packs, scale)
        state = self.replay.state
        size = Size(state.chars, state.grown)
        place = len(self.replay.others) - 1
        turn = PackCandidate(turn_pack(state.messages, state.forms), place, Priority.REQUIRED, size, NO_SIZE)
        *before, tools = [candidate.copy() for candidate in self.replay.others]
        tools.truncated = bool(self.frozen.left_out_tools)
        self.steps = _apply_compaction(turn, state, scale, budget_reason(self.bound))
        return [*before, turn, tools]


def replay_turn(
    frozen: FrozenTurn,
    answers: Mapping[Need, NeedAnswer],
    units: Sequence[Unit],
    earlier: TurnReplay | None,
    made: Callable[[], Sequence[Pack]],
    scale: PackMeter,
) -> TurnReplay:
    """Replay the turn from where `earlier` ends.

    Where `earlier` does not lead to these units, choose among the packs first and replay all of them.
    """
    budget = request_limit(frozen).tokens
    past: dict[Need, NeedAnswer] = {need: answer for need, answer in answers.items() if not isinstance(need, TurnSoFar)}
    opening = next(
        (place for place, unit in enumerate(units) if unit.kind in (UnitKind.SLICE, UnitKind.TEXT)), len(units)
    )
    if (
        earlier is not None
        and earlier.opening == opening
        and earlier.units == tuple(units[: len(earlier.units)])
        and (earlier.frozen is frozen or earlier.frozen == frozen)
        and earlier.past == past
    ):
        state, begin = earlier.state.copy(), len(earlier.units)
        others = [candidate.copy() for candidate in earlier.others]
    else:
        state, begin = CompactedTurn(frozen), opening
        for unit in units[:opening]:
            state.add(unit)
        others = measure_packs([*made(), tools_pack(frozen)], scale)
        others[-1].index += 1  # the turn stands before the tools
        choose_packs(others, budget, state.total)
    required = sum(candidate.size.tokens for candidate in others if candidate.is_required)
    target, newest = _targets(budget, required)
    optional = sort_by_priority([candidate for candidate in others if not candidate.is_required])
    for unit in units[begin:]:
        state.add(unit)
        must = required + state.total
        if must + sum(candidate.size.tokens for candidate in optional) > budget:
            if must > budget:
                state.compact(target - required, budget - required, newest - required)
            _drop_optional(optional, target, required + state.total)
    return TurnReplay(frozen, past, tuple(units), opening, state, tuple(others))


def _targets(budget: int, required: int) -> tuple[int, int]:
    """Return the size that a compaction aims for, and the least size of newest results.

    Both leave room, so that the next requests keep the prefix.
    """
    target = required + int((budget - required) * HEADROOM)
    return target, (target + budget) // 2


def _drop_optional(optional: Sequence[PackCandidate], target: int, taken: int) -> None:
    """Choose again among the packs still included; a pack is never enlarged within a turn."""
    for candidate in optional:
        if candidate.status is PackStatus.SKIPPED:
            continue
        if taken + candidate.size.tokens > target:
            if candidate.has_compact and taken + candidate.compact.tokens <= target:
                candidate.take(Variant.COMPACT, Reason.BUDGET)
            else:
                candidate.skip(Reason.BUDGET)
        taken += candidate.size.tokens


def _apply_compaction(turn: PackCandidate, state: CompactedTurn, scale: PackMeter, why: Reason) -> list[PlanStep]:
    """Replace the turn's full form by the compacted one; return the changes."""
    steps = state.steps()
    turn.take(Variant.FULL, Reason.REQUIRED)
    turn.truncated = bool(steps)
    if any(one.kind is not StepKind.LIMIT for one in steps):
        messages, turn.forms = state.compacted()
        turn.body, turn.size = messages, scale.body(messages)
        turn.variant, turn.reason = Variant.COMPACT, why
    return steps


def budget_reason(bound: Limit) -> Reason:
    """Return the reason for what a limit cuts."""
    return Reason.MAX_CHARS if not bound.setting else Reason.BUDGET
