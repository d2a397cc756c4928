"""Plan one request of a turn: choose packs, compact the turn, respect the budget.

The turn is replayed unit by unit (see `compaction.py`). Packs are chosen before the first answer.
After that a choice changes only when the request outgrows its budget, and then down to
`HEADROOM`, so that a provider's prompt cache is rarely lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from zoea.context.candidates import NO_SIZE, PackCandidate, PackMeter, Size, build_plan, measure_packs, sort_by_priority
from zoea.context.compaction import CompactedTurn, build_step, own_chars
from zoea.context.forms import BARE, FULL, ORDER, render_memory
from zoea.context.frozen_turn import FrozenTurn, Limit, raised_setting, request_limit
from zoea.context.measure import Counter
from zoea.context.needs import Need, NeedAnswer, TurnSoFar
from zoea.context.past_packs import past_notes
from zoea.context.plan_values import PackStatus, Plan, PlanStep, Priority, Reason, StepKind, Truncation, Variant
from zoea.context.selection import choose_packs, cut_candidate
from zoea.context.strategies import packs as packs_of
from zoea.context.turn_packs import tools_pack, turn_pack, turn_units
from zoea.context.units import Unit, UnitKind
from zoea.model.errors import PlanError

HEADROOM = 0.7
"""The share of the budget that a compaction aims for."""
LOOK_BACK = 20
"""Blocks before a mark in which Anthropic looks for what it has cached."""
_VERBATIM = (FULL, BARE, ORDER)
_PARTS = {
    "system": ("the system prompt", "shorten the template's prompt"),
    "tools": ("the tool schemas", "allow fewer tools in the template"),
    "order": ("the standing order", "give the mysis a shorter order"),
    "turn": ("the prompts and latest calls of the turn", "send the text in smaller parts"),
}


@dataclass(frozen=True, slots=True)
class TurnReplay:
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


def plan_turn(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> Plan:
    """Return the plan of the turn's next request.

    Raises:
        PlanError: The required parts do not fit; the error names them, their sizes and a remedy.
        KeyError: A need of the strategy has no answer.
    """
    return plan_next(frozen, answers, None)[0]


def plan_next(
    frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer], earlier: TurnReplay | None
) -> tuple[Plan, TurnReplay]:
    """Return the plan of the turn's next request, and the replay to pass to the one after it.

    The plan is the same with any `earlier`: a replay that does not lead to this request is ignored.
    Raises as `plan_turn` does.
    """
    bound = request_limit(frozen)
    scale = PackMeter(Counter(frozen.calibration))
    units, left_out = turn_units(frozen, answers)
    replay = _replay(frozen, answers, units, earlier, scale)
    state = replay.state
    turn = PackCandidate(
        turn_pack(state.messages, state.forms),
        len(replay.others) - 1,
        Priority.REQUIRED,
        Size(state.chars, state.grown),
        NO_SIZE,
    )
    *before_turn, tools = [candidate.copy() for candidate in replay.others]
    tools.truncated = bool(frozen.left_out_tools)
    candidates = [*before_turn, turn, tools]
    before = sum(candidate.full.chars for candidate in candidates if candidate.pack.counted is None)
    steps = _apply_compaction(turn, state, scale, _budget_reason(bound))
    _fit_required(candidates, bound, frozen, scale)
    _set_binding_settings(candidates, steps, state.grown, bound, frozen)
    after = sum(candidate.size.chars for candidate in candidates if candidate.pack.counted is None)
    applied = any(candidate.reason is Reason.MAX_CHARS for candidate in candidates)
    plan = build_plan(candidates, bound.tokens, Truncation(applied, before, after))
    past = _report_past_memories(candidates, answers, frozen)
    omitted = [PlanStep(one.kind, one.memory.id, own_chars(render_memory(one.memory, FULL)), 0) for one in left_out]
    notes = past_notes(frozen, answers)
    plan = replace(
        plan,
        steps=(*past, *omitted, *steps),
        left_out_tools=frozen.left_out_tools,
        notes=notes,
        label_to=frozen.label_to,
        cache_ends=_find_cache_ends(before_turn, frozen),
    )
    return plan, replay


def _find_cache_ends(before_turn: Sequence[PackCandidate], frozen: FrozenTurn) -> tuple[int, ...]:
    """Return where the earlier turns end, and where they ended a turn ago, if a provider does not look back so far."""
    end = 0
    for candidate in before_turn:
        body = candidate.body
        if not body:
            continue
        end += 1 if isinstance(body, str) else len(body)
        if candidate.pack.id == "earlier" and not isinstance(body, str):
            newest = frozen.earlier[-1].turn_id
            added = [one for one in body if candidate.pack.turn_of.get(one.memory_id or 0) == newest]
            blocks = sum(bool(one.content) + len(one.calls) for one in added)
            former = end - len(added)
            return (former, end) if blocks > LOOK_BACK and len(added) < len(body) else (end,)
    return ()


def _replay(
    frozen: FrozenTurn,
    answers: Mapping[Need, NeedAnswer],
    units: Sequence[Unit],
    earlier: TurnReplay | None,
    scale: PackMeter,
) -> TurnReplay:
    """Replay the turn, from where `earlier` ends if it leads to these units."""
    budget = request_limit(frozen).tokens
    past: dict[Need, NeedAnswer] = {need: answer for need, answer in answers.items() if not isinstance(need, TurnSoFar)}
    opening = next(
        (place for place, unit in enumerate(units) if unit.kind in (UnitKind.SLICE, UnitKind.TEXT)), len(units)
    )
    if (
        earlier is not None
        and earlier.opening == opening
        and earlier.units == tuple(units[: len(earlier.units)])
        and earlier.frozen == frozen
        and earlier.past == past
    ):
        state, begin = earlier.state.copy(), len(earlier.units)
        others = [candidate.copy() for candidate in earlier.others]
    else:
        state, begin = CompactedTurn(frozen), opening
        for unit in units[:opening]:
            state.add(unit)
        others = measure_packs([*packs_of(frozen, answers), tools_pack(frozen)], scale)
        others[-1].index += 1  # the turn stands before the tools
        choose_packs(others, budget, state.total)
    required = sum(candidate.size.tokens for candidate in others if candidate.is_required)
    target, newest = _targets(frozen, budget, required)
    optional = sort_by_priority([candidate for candidate in others if not candidate.is_required])
    for unit in units[begin:]:
        state.add(unit)
        must = required + state.total
        if must + sum(candidate.size.tokens for candidate in optional) > budget:
            if must > budget:
                state.compact(target - required, budget - required, newest - required)
            _drop_optional(optional, target, required + state.total)
    return TurnReplay(frozen, past, tuple(units), opening, state, tuple(others))


def _targets(frozen: FrozenTurn, budget: int, required: int) -> tuple[int, int]:
    """Return what a compaction aims for, and down to what it cuts the newest results where it must.

    Both leave room, so that the next requests keep the prefix. Under the rules 1 the first was a share of the whole
    budget, which large tool schemas alone could exceed, and the newest results filled the budget.
    """
    if frozen.plan_version == 1:
        return int(budget * HEADROOM), budget
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


def _fit_required(candidates: Sequence[PackCandidate], bound: Limit, frozen: FrozenTurn, scale: PackMeter) -> None:
    """Cut required packs without `preserve` until all fits, or raise PlanError."""
    counter = Counter(frozen.calibration)
    loose = [one for one in candidates if one.is_required and not one.pack.preserve and isinstance(one.body, str)]
    for candidate in sorted(loose, key=lambda one: (-one.size.chars, -one.index)):
        excess = sum(one.size.tokens for one in candidates) - bound.tokens
        keep = counter.chars_within(candidate.size.tokens - excess)
        while excess > 0 and keep > 0:
            cut_candidate(candidate, keep, _budget_reason(bound), scale)
            excess = sum(one.size.tokens for one in candidates) - bound.tokens
            keep -= 1  # rounding may have left a token too many
    if sum(one.size.tokens for one in candidates) > bound.tokens:
        raise refuse_plan(candidates, bound, frozen)


def _budget_reason(bound: Limit) -> Reason:
    return Reason.MAX_CHARS if not bound.setting else Reason.BUDGET


def refuse_plan(candidates: Sequence[PackCandidate], bound: Limit, frozen: FrozenTurn) -> PlanError:
    """Build the error for required packs that exceed the limit together."""
    must = sorted((one for one in candidates if one.size.tokens), key=lambda one: -one.size.tokens)
    need = sum(candidate.size.tokens for candidate in must)
    sizes = ", ".join(f"{_part(one)[0]} {one.size.tokens:,} ({one.size.chars:,} characters)" for one in must)
    advice = _part(must[0])[1]
    raised = f"Raise {bound.setting} to at least {raised_setting(bound, frozen, need):,}, or " if bound.setting else ""
    return PlanError(
        f"The request needs at least {need:,} tokens and may have {max(bound.tokens, 0):,}. It must hold {sizes}.",
        hint=f"{raised}{advice}." if raised else f"{advice[0].upper()}{advice[1:]}.",
    )


def _part(candidate: PackCandidate) -> tuple[str, str]:
    return _PARTS.get(candidate.pack.id, (candidate.pack.id, f"make the pack {candidate.pack.id} shorter"))


def _set_binding_settings(
    candidates: Sequence[PackCandidate], steps: Sequence[PlanStep], grown: int, bound: Limit, frozen: FrozenTurn
) -> None:
    """Record for each shortened pack the setting and value that would have kept it whole, if there is one.

    `grown` is the cost of the turn without compaction.
    """
    longest = max((one.before_chars for one in steps if one.kind is StepKind.LIMIT), default=0)
    taken = grown + sum(one.full.tokens for one in candidates if one.is_required and one.pack.id != "turn")
    for candidate in sort_by_priority(candidates):
        if not candidate.is_required:
            taken += candidate.full.tokens
        if candidate.reason is Reason.BUDGET:
            candidate.reason = _budget_reason(bound)
        if candidate.reason is Reason.MAX_CHARS:
            candidate.setting = ""
        elif candidate.reason is Reason.BUDGET:
            candidate.setting = f"{bound.setting} = {raised_setting(bound, frozen, taken)}"
        elif candidate.truncated:
            candidate.setting = f"tool.max_result_chars = {longest}"


def _report_past_memories(
    candidates: Sequence[PackCandidate], answers: Mapping[Need, NeedAnswer], frozen: FrozenTurn
) -> list[PlanStep]:
    """Report the memories of earlier turns that are shortened in the request."""
    memories = {memory.id: memory for answer in answers.values() if isinstance(answer, tuple) for memory in answer}
    steps = []
    for candidate in candidates:
        if candidate.status is PackStatus.SKIPPED or candidate.pack.id == "turn":
            continue
        for memory_id, form in candidate.forms.items():
            if form not in _VERBATIM:
                reported = build_step(memories[memory_id], form, frozen.max_result_chars, candidate.pack.id)
                if reported.after_chars < reported.before_chars:
                    steps.append(reported)
    return steps
