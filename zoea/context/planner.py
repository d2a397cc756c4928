"""One request of a turn: packs chosen, the turn compacted, I1 kept or refused with a reason.

The turn is replayed unit by unit (see `compaction.py`). Before the first answer
packs are chosen as planner.md's rules say. From then on a choice changes only
when the request has outgrown its budget, and then down to `HEADROOM` of it, so
that a provider's cache is lost seldom (I5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from zoea.context.candidates import Candidate, PackMeter, build_plan, measure_packs, sort_by_priority
from zoea.context.compaction import CompactedTurn, build_step, own_chars
from zoea.context.forms import BARE, FULL, ORDER, render_memory
from zoea.context.frozen_turn import FrozenTurn, Limit, raised_setting, request_limit
from zoea.context.measure import Counter
from zoea.context.needs import Need, NeedAnswer
from zoea.context.plan_values import PackStatus, Plan, PlanStep, Reason, StepKind, Truncation, Variant
from zoea.context.selection import choose_packs, cut_candidate
from zoea.context.strategies import packs as packs_of
from zoea.context.turn_packs import turn_units
from zoea.context.units import OmittedMemory, Unit, UnitKind
from zoea.model.errors import PlanError
from zoea.model.request import RequestMessage

_PARTS = {
    "system": ("the system prompt", "shorten the template's prompt"),
    "tools": ("the tool schemas", "allow fewer tools in the template"),
    "order": ("the standing order", "give the mysis a shorter order"),
    "turn": ("the prompts and latest calls of the turn", "send the text in smaller parts"),
}


def refuse_plan(choices: Sequence[Candidate], bound: Limit, frozen: FrozenTurn) -> PlanError:
    """The error for packs that must be there and take more than `bound` together."""
    must = sorted((one for one in choices if one.size.tokens), key=lambda one: -one.size.tokens)
    need = sum(choice.size.tokens for choice in must)
    sizes = ", ".join(f"{_part(one)[0]} {one.size.tokens:,} ({one.size.chars:,} characters)" for one in must)
    return PlanError(
        f"The request needs at least {need:,} tokens and may have {max(bound.tokens, 0):,}. It must hold {sizes}.",
        hint=f"Raise {bound.setting} to at least {raised_setting(bound, frozen, need):,}, or {_part(must[0])[1]}.",
    )


def _part(choice: Candidate) -> tuple[str, str]:
    return _PARTS.get(choice.pack.id, (choice.pack.id, f"make the pack {choice.pack.id} shorter"))


HEADROOM = 0.7
"""The share of the budget that a compaction goes down to, where it can."""

_VERBATIM = (FULL, BARE, ORDER)


def plan_turn(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> Plan:
    """The plan of the turn's next request.

    Raises:
        PlanError: the parts that must be there cannot fit; it names them, their sizes and what to change.
        KeyError: a need of the strategy has no answer.
    """
    bound = request_limit(frozen)
    scale = PackMeter(Counter(frozen.calibration))
    choices = measure_packs(packs_of(frozen, answers), scale)
    turn = next(choice for choice in choices if choice.pack.id == "turn")
    others = [choice for choice in choices if choice is not turn]
    units, left_out = turn_units(frozen, answers)
    before = sum(choice.full.chars for choice in choices if choice.pack.counted is None)
    state = _replay(units, turn, others, frozen, bound.tokens)
    steps = _settle_turn(turn, state, scale, _why(bound))
    _fit_required(choices, bound, frozen, scale)
    _name_settings(choices, state, bound, frozen)
    after = sum(choice.size.chars for choice in choices if choice.pack.counted is None)
    applied = any(choice.reason is Reason.MAX_CHARS for choice in choices)
    plan = build_plan(choices, bound.tokens, Truncation(applied, before, after))
    reported = _past_steps(choices, answers, frozen) + [_left_out_step(one) for one in left_out] + steps
    return replace(plan, steps=tuple(reported))


def _replay(
    units: Sequence[Unit], turn: Candidate, others: Sequence[Candidate], frozen: FrozenTurn, budget: int
) -> CompactedTurn:
    """The state of the turn, and of the other packs' choices, after everything that happened in it."""
    state = CompactedTurn(frozen)
    shown = (message for message in turn.pack.full if isinstance(message, RequestMessage))
    opening = next((place for place, unit in enumerate(units) if _is_answer(unit)), len(units))
    for unit in units[:opening]:
        state.add(unit, list(islice(shown, len(unit.memories) or 1)))
    choose_packs(others, budget, state.total)
    target = int(budget * HEADROOM)
    required = sum(choice.size.tokens for choice in others if choice.is_required)
    optional = sort_by_priority([choice for choice in others if not choice.is_required])
    for unit in units[opening:]:
        state.add(unit, list(islice(shown, len(unit.memories) or 1)))
        must = required + state.total
        if must + sum(choice.size.tokens for choice in optional) > budget:
            if must > budget:
                state.relieve(target - required, budget - required)
            _give_way(optional, target, required + state.total)
    return state


def _is_answer(unit: Unit) -> bool:
    return unit.kind in (UnitKind.SLICE, UnitKind.TEXT)


def _give_way(optional: Sequence[Candidate], target: int, taken: int) -> None:
    """Choose anew among what is still in, never back to more: what once gave way stays away for the turn."""
    for choice in optional:
        if choice.status is PackStatus.SKIPPED:
            continue
        if taken + choice.size.tokens > target:
            if choice.has_compact and taken + choice.compact.tokens <= target:
                choice.take(Variant.COMPACT, Reason.BUDGET)
            else:
                choice.skip(Reason.BUDGET)
        taken += choice.size.tokens


def _settle_turn(turn: Candidate, state: CompactedTurn, scale: PackMeter, why: Reason) -> list[PlanStep]:
    """Put the compacted turn in the place of the full one."""
    steps = state.steps()
    turn.take(Variant.FULL, Reason.REQUIRED)
    turn.truncated = bool(steps)
    if any(one.kind is not StepKind.LIMIT for one in steps):
        messages, turn.forms = state.messages()
        turn.body, turn.size = messages, scale.body(messages)
        turn.variant, turn.reason = Variant.COMPACT, why
    return steps


def _fit_required(choices: Sequence[Candidate], bound: Limit, frozen: FrozenTurn, scale: PackMeter) -> None:
    """Cut required packs without `preserve` where the rest cannot give more; else refuse."""
    counter = Counter(frozen.calibration)
    loose = [one for one in choices if one.is_required and not one.pack.preserve and isinstance(one.body, str)]
    for choice in sorted(loose, key=lambda one: (-one.size.chars, -one.index)):
        excess = sum(one.size.tokens for one in choices) - bound.tokens
        keep = counter.chars_within(choice.size.tokens - excess)
        while excess > 0 and keep > 0:
            cut_candidate(choice, keep, _why(bound), scale)
            excess = sum(one.size.tokens for one in choices) - bound.tokens
            keep -= 1  # rounding may have left a token too many
    if sum(one.size.tokens for one in choices) > bound.tokens:
        raise refuse_plan(choices, bound, frozen)


def _why(bound: Limit) -> Reason:
    return Reason.MAX_CHARS if bound.setting == "max_chars" else Reason.BUDGET


def _name_settings(choices: Sequence[Candidate], state: CompactedTurn, bound: Limit, frozen: FrozenTurn) -> None:
    """Say for each pack that is not whole which setting, at which value, would have kept it."""
    longest = max((one.before_chars for one in state.steps() if one.kind is StepKind.LIMIT), default=0)
    taken = state.grown + sum(one.full.tokens for one in choices if one.is_required and one.pack.id != "turn")
    for choice in sort_by_priority(choices):
        if not choice.is_required:
            taken += choice.full.tokens
        if choice.reason is Reason.BUDGET:
            choice.reason = _why(bound)
        if choice.reason in (Reason.BUDGET, Reason.MAX_CHARS):
            choice.setting = f"{bound.setting} = {raised_setting(bound, frozen, taken)}"
        elif choice.truncated:
            choice.setting = f"max_result_chars = {longest}"


def _past_steps(choices: Sequence[Candidate], answers: Mapping[Need, NeedAnswer], frozen: FrozenTurn) -> list[PlanStep]:
    """The memories of earlier turns that stand in the request shortened."""
    memories = {memory.id: memory for answer in answers.values() if isinstance(answer, tuple) for memory in answer}
    steps = []
    for choice in choices:
        if choice.status is PackStatus.SKIPPED or choice.pack.id == "turn":
            continue
        for memory_id, form in choice.forms.items():
            if form not in _VERBATIM:
                reported = build_step(memories[memory_id], form, frozen.max_result_chars, choice.pack.id)
                if reported.after_chars < reported.before_chars:
                    steps.append(reported)
    return steps


def _left_out_step(one: OmittedMemory) -> PlanStep:
    return PlanStep(one.kind, one.memory.id, own_chars(render_memory(one.memory, FULL)), 0)
