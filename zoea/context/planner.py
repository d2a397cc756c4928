"""Plan a request: the one way of packs of any strategy into a request.

`plan` measures packs, chooses them under a budget, and builds the plan. Where it is given a `CurrentTurn`, that is
replayed unit by unit beside them (see `turn_replay.py`), and the limits are those of the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil

from msgspec.structs import replace

from zoea.context.candidates import PackCandidate, PackMeter, build_plan, measure_packs, sort_by_priority
from zoea.context.compaction import build_step, own_chars
from zoea.context.forms import BARE, FULL, ORDER, render_memory
from zoea.context.frozen_turn import WINDOW_SETTING, FrozenTurn, Limit, name_settings, raised_setting
from zoea.context.measure import Counter, TextCounter
from zoea.context.needs import Need, NeedAnswer
from zoea.context.past_packs import past_notes
from zoea.context.plan_values import Pack, PackStatus, Plan, PlanStep, Reason, StepKind, Truncation
from zoea.context.selection import (
    DEFAULT_MAX_CHARS,
    choose_packs,
    cut_candidate,
    enforce_max_chars,
    parse_limit,
)
from zoea.context.strategies import packs as packs_of
from zoea.context.strategies.ledger_topics import source_notes
from zoea.context.strategies.sliding_window import budgets_of_conversation
from zoea.context.turn_replay import CurrentTurn, TurnReplay, budget_reason
from zoea.model.errors import PlanError
from zoea.settings.topic_source import DEFAULT_MAX_TOKENS
from zoea.text.estimate import CHARS_PER_TOKEN

LOOK_BACK = 20
"""Blocks before a mark in which Anthropic looks for what it has cached."""
_VERBATIM = (FULL, BARE, ORDER)
_PARTS = {
    "system": ("the system prompt", "shorten the template's prompt"),
    "header": ("the header of the role", "raise the budget"),
    "schema": ("the output schema", "make the template's output_schema smaller"),
    "tools": ("the tool schemas", "allow fewer tools in the template"),
    **dict.fromkeys(("inherited", "inherited_newest"), ("what the mysis inherited", "lower inherited.max_tokens")),
    "order": ("the standing order", "give the mysis a shorter order"),
    "turn": ("the prompts and latest calls of the turn", "send the text in smaller parts"),
}


_SHORTENING = (Reason.BUDGET, Reason.MAX_CHARS)
_CONVERSATION = ("primers", "recents")
"""Sections of the strategy `window` that show messages before the turn; a summary can stay beside a few short ones."""
_BESIDE = ("inherited", "order", "recall")
"""Sections of the strategy `window` that are no part of its estimate of a request."""
_CUT_TOKENS = 64
"""The most by which a result is cut shorter than its limit, so that no sign is split."""


def plan(
    packs: Sequence[Pack] | Callable[[], Sequence[Pack]],
    *,
    max_tokens: int | str | None = None,
    max_chars: int | str | None = None,
    count: TextCounter | None = None,
    turn: CurrentTurn | None = None,
) -> Plan:
    """Select packs under a budget.

    Args:
        packs: The packs in the order they have in the request, or what makes them.
        max_tokens: The budget; None or 0 means 100,000. Numeric strings are accepted.
        max_chars: The limit on all characters; None or 0 means 500,000.
        count: Counts the tokens of a text, `ceil(chars / 4)` by default. A `Counter` also counts calls and reasoning.
        turn: The current turn, which stands behind the packs. Its own limits and counter hold instead of the others.

    Raises:
        SettingsError: A limit or a priority is invalid.
        PlanError: The required parts of a turn do not fit; the error names them, their sizes and a remedy.
    """
    made = packs if callable(packs) else lambda: packs
    if turn is not None:
        scale, budget = PackMeter(Counter(turn.frozen.calibration)), turn.bound.tokens
        candidates = turn.choose(made, scale)
        truncation = _fit_turn(candidates, turn, scale)
        return _describe_turn(build_plan(candidates, budget, truncation), candidates, turn)
    scale, budget = PackMeter(count), parse_limit(max_tokens, "max_tokens", DEFAULT_MAX_TOKENS)
    most_chars = parse_limit(max_chars, "max_chars", DEFAULT_MAX_CHARS)
    candidates = measure_packs(made(), scale)
    choose_packs(candidates, budget)
    return build_plan(candidates, budget, enforce_max_chars(candidates, most_chars, scale))


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
    """Return the plan of the turn's next request, and the replay for the one after.

    The plan is the same with any `earlier`: a replay that does not lead to this request is ignored.
    Raises as `plan_turn` does.
    """
    turn = CurrentTurn(frozen, answers, earlier)
    return plan(partial(packs_of, frozen, answers), turn=turn), turn.replay


def _fit_turn(candidates: Sequence[PackCandidate], turn: CurrentTurn, scale: PackMeter) -> Truncation:
    """Make the required parts fit, and name the setting that limits each part. Raises PlanError."""
    before = sum(candidate.full.chars for candidate in candidates if candidate.pack.counted is None)
    _fit_required(candidates, turn.bound, turn.frozen, scale)
    if any(one.truncated or one.reason in _SHORTENING for one in candidates):
        _set_binding_settings(candidates, turn, *budgets_of_conversation(turn.frozen, turn.answers))
    after = sum(candidate.size.chars for candidate in candidates if candidate.pack.counted is None)
    return Truncation(any(one.reason is Reason.MAX_CHARS for one in candidates), before, after)


def _describe_turn(made: Plan, candidates: Sequence[PackCandidate], turn: CurrentTurn) -> Plan:
    """Add a turn's steps, notes, tools and cache marks to a plan."""
    frozen, answers = turn.frozen, turn.answers
    past = _report_past_memories(candidates, answers, frozen)
    omitted = [
        PlanStep(one.kind, one.memory.id, own_chars(render_memory(one.memory, FULL)), 0) for one in turn.left_out
    ]
    before_turn = [one for one in candidates if one.pack.counted is None and one.pack.id != "turn"]
    return replace(
        made,
        steps=(*past, *omitted, *turn.steps),
        left_out_tools=frozen.left_out_tools,
        notes=(*past_notes(frozen, answers), *source_notes(frozen, answers)),
        label_to=frozen.label_to,
        cache_ends=_find_cache_ends(before_turn, frozen),
    )


def _find_cache_ends(before_turn: Sequence[PackCandidate], frozen: FrozenTurn) -> tuple[int, ...]:
    """Return where the earlier turns end now and ended a turn ago. Empty if a provider looks back so far."""
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


def _fit_required(candidates: Sequence[PackCandidate], bound: Limit, frozen: FrozenTurn, scale: PackMeter) -> None:
    """Cut required packs without `preserve` until all fits, or raise PlanError."""
    counter = Counter(frozen.calibration)
    loose = [one for one in candidates if one.is_required and not one.pack.preserve and isinstance(one.body, str)]
    for candidate in sorted(loose, key=lambda one: (-one.size.chars, -one.index)):
        excess = sum(one.size.tokens for one in candidates) - bound.tokens
        keep = counter.chars_within(candidate.size.tokens - excess)
        while excess > 0 and keep > 0:
            cut_candidate(candidate, keep, budget_reason(bound), scale)
            excess = sum(one.size.tokens for one in candidates) - bound.tokens
            keep -= 1  # rounding may have left a token too many
    if sum(one.size.tokens for one in candidates) > bound.tokens:
        raise refuse_plan(candidates, bound, frozen)


def refuse_plan(candidates: Sequence[PackCandidate], bound: Limit, frozen: FrozenTurn) -> PlanError:
    """Build the error for required packs that exceed the limit together."""
    must = sorted((one for one in candidates if one.size.tokens), key=lambda one: -one.size.tokens)
    need = sum(candidate.size.tokens for candidate in must)
    sizes = ", ".join(f"{_part(one)[0]} {one.size.tokens:,} ({one.size.chars:,} characters)" for one in must)
    advice = _part(must[0])[1]
    raised = ""
    if name_settings(bound, frozen, need):
        value = raised_setting(bound, frozen, need)
        if bound.setting == WINDOW_SETTING:
            # The window is the server's: a larger number in the settings alone would only make the requests too long.
            raised = f"Start the model server with a window of at least {value:,} tokens, or "
        else:
            raised = f"Raise {bound.setting} to at least {value:,}, or "
    return PlanError(
        f"The request needs at least {need:,} tokens and may have {max(bound.tokens, 0):,}. It must hold {sizes}.",
        hint=f"{raised}{advice}." if raised else f"{advice[0].upper()}{advice[1:]}.",
    )


def _part(candidate: PackCandidate) -> tuple[str, str]:
    return _PARTS.get(candidate.pack.id, (candidate.pack.id, f"make the pack {candidate.pack.id} shorter"))


def _set_binding_settings(
    candidates: Sequence[PackCandidate], turn: CurrentTurn, unsummarised: int, verbatim: int
) -> None:
    """Record for each shortened pack the setting that would have kept it whole.

    Args:
        unsummarised: The budget under which the conversation before the turn is not summarised further; 0 if unknown.
        verbatim: The tokens of that conversation as a request would show it; 0 if unknown.
    """
    steps, grown, bound, frozen = turn.steps, turn.grown, turn.bound, turn.frozen
    longest = max((one.before_chars for one in steps if one.kind is StepKind.LIMIT), default=0)
    limited = [one.before_chars for one in steps if one.before_chars > frozen.max_result_chars]
    # A turn that outgrows its budget once is compacted as a whole, so only a budget for all of it keeps each pack.
    taken = grown + sum(one.full.tokens for one in candidates if one.pack.id != "turn")
    if unsummarised or verbatim:
        # A larger budget shows more of the conversation, so it has to hold all of that beside the turn.
        beside = sum(one.full.tokens for one in candidates if one.pack.section in _BESIDE)
        others = sum(one.full.tokens for one in candidates if one.pack.section not in (*_CONVERSATION, "turn"))
        # Where the window cannot show all, a summary takes its share of any budget.
        share = 1.0 if unsummarised or frozen.window is None else 1.0 - frozen.window.target
        taken = max(taken, unsummarised + grown + beside, ceil((verbatim + grown + others) / share))
    # Whole results take more than what they were cut to before the budget cut them further.
    more = [ceil((chars - frozen.max_result_chars) / CHARS_PER_TOKEN) + _CUT_TOKENS for chars in limited]
    whole_results = sum(map(Counter(frozen.calibration).scale, more))
    present = sum(one.size.tokens for one in candidates)
    for candidate in sort_by_priority(candidates):
        if candidate.reason is Reason.BUDGET:
            candidate.reason = budget_reason(bound)
        if candidate.reason is Reason.MAX_CHARS:
            candidate.setting = ""
        elif candidate.reason is Reason.BUDGET and limited and candidate.pack.id == "turn":
            candidate.setting = _name_with_results(name_settings(bound, frozen, taken + whole_results), max(limited))
        elif candidate.reason is Reason.BUDGET:
            candidate.setting = name_settings(bound, frozen, taken)
        elif candidate.pack.counted is not None:
            candidate.setting = name_settings(bound, frozen, frozen.all_tools_tokens) if candidate.truncated else ""
        elif candidate.truncated and present + whole_results > bound.tokens:
            candidate.setting = _name_with_results(name_settings(bound, frozen, taken + whole_results), longest)
        elif candidate.truncated:
            candidate.setting = f"tool.max_result_chars = {longest}"


def _name_with_results(budget: str, chars: int) -> str:
    """Return the settings for a budget and whole results; empty where no budget is enough."""
    return f"{budget} and tool.max_result_chars = {chars}" if budget else ""


def _report_past_memories(
    candidates: Sequence[PackCandidate], answers: Mapping[Need, NeedAnswer], frozen: FrozenTurn
) -> list[PlanStep]:
    """Report the memories of earlier turns that are shortened in the request."""
    if all(form in _VERBATIM for one in candidates for form in one.forms.values()):
        return []
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
