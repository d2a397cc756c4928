"""Invariants I1 to I7 of planning, for random histories and budgets."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.context.sample_histories import Story, check_all, stories
from tests.swarm.invariants import is_whole
from zoea.context import (
    HEADROOM,
    FrozenTurn,
    Need,
    NeedAnswer,
    PackStatus,
    Plan,
    Reason,
    StepKind,
    TurnRecord,
    TurnReplay,
    TurnSoFar,
    encode,
    message_tokens,
    packs,
    plan_next,
    plan_turn,
    rebuild,
    request_limit,
    request_tokens,
)
from zoea.context.forms import FULL, render_memory
from zoea.context.turn_packs import turn_units
from zoea.context.units import UnitKind
from zoea.model.enums import Role
from zoea.model.errors import PlanError
from zoea.model.request import RequestMessage
from zoea.model.values import Memory

LIMITS = st.fixed_dictionaries(
    {
        "max_tokens": st.sampled_from((300, 900, 2500, 8000, 50_000)),
        "max_chars": st.sampled_from((500_000, 500_000, 6000)),
        "context_window": st.sampled_from((None, None, 8192)),
        "calibration": st.sampled_from((1.0, 0.7, 1.37)),
        "tools_tokens": st.sampled_from((0, 120)),
        "max_result_chars": st.sampled_from((100_000, 2000)),
        "keep_answer": st.booleans(),
        "system": st.sampled_from(("You are a mysis.", "You are a mysis. " * 150)),
        "situation": st.sampled_from(("", "tick 7\nfuel low " * 9)),
    }
)


@dataclass(frozen=True)
class Example:
    """A random history and budget."""

    story: Story
    limits: dict[str, object]
    rng: random.Random

    @cached_property
    def frozen(self) -> FrozenTurn:
        return self.story.recorder.frozen(**self.limits)

    @cached_property
    def made(self) -> list[tuple[FrozenTurn, TurnRecord, Plan]]:
        """The plan at each moment that has one."""
        return plans(self.story, self.limits)


def plans(story: Story, limits: dict[str, object]) -> list[tuple[FrozenTurn, TurnRecord, Plan]]:
    """Return the plan at each moment that has one."""
    frozen = story.recorder.frozen(**limits)
    out = []
    for moment, record in enumerate(story.moments):
        try:
            out.append((frozen, record, plan_turn(frozen, story.at(moment, frozen))))
        except PlanError as error:
            note(f"moment {moment}: {error}")
    return out


def i1_no_request_exceeds_its_budget(example: Example) -> None:
    for frozen, _, plan in example.made:
        tokens = request_tokens(plan.messages, tools_tokens=frozen.tools_tokens, calibration=frozen.calibration)
        assert tokens == plan.tokens <= request_limit(frozen).tokens <= frozen.max_tokens
        assert sum(len(message.content) for message in plan.messages) <= frozen.max_chars


def tokens_of_characters(frozen: FrozenTurn) -> int:
    """Return the tokens that the limit on characters allows, which no setting raises."""
    return int(frozen.max_chars / 4 * frozen.calibration)


def i1_a_refusal_is_correct_and_says_how_to_fix_it(example: Example) -> None:
    answers = example.story.at(len(example.story.moments) - 1, example.frozen)
    refused = refusal_of(example.frozen, answers)
    if refused is not None:
        need = int(refused.what.split("at least ")[1].split(" tokens")[0].replace(",", ""))
        wider = dict.fromkeys(("max_tokens", "max_chars", "context_window"), 10**7)
        if request_limit(example.frozen).setting and need <= tokens_of_characters(example.frozen):
            way, value = refused.hint.split(", or")[0].split(" at least ")
            raised = {
                "Raise budget.token_budget_per_agent to": "max_tokens",
                "Start the model server with a window of": "context_window",
            }
            wider[raised[way]] = int(value.removesuffix(" tokens").replace(",", ""))
        else:
            assert "at least" not in refused.hint
        assert refusal_of(replace(example.frozen, **wider), answers) is None


def i1_a_turn_is_refused_only_if_its_shortest_form_does_not_fit(example: Example) -> None:
    story, frozen = example.story, example.frozen
    answers = story.at(len(story.moments) - 1, frozen)
    if refusal_of(frozen, answers) is not None:
        order = next((pack for pack in packs(frozen, answers) if pack.id == "order"), None)
        shown = [message for message in order.full if isinstance(message, RequestMessage)] if order else []
        system = len(frozen.system) // 4 + 6  # it is never cut
        least = system + frozen.tools_tokens + sum(map(message_tokens, shown)) + shortest(frozen, answers)
        assert least * frozen.calibration + len(story.recorder.memories) > request_limit(frozen).tokens


def shortest(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> int:
    """Return the base tokens of the turn in its shortest form."""
    units, _ = turn_units(frozen, answers)
    slices = [unit for unit in units if unit.kind is UnitKind.SLICE]
    total = 0
    for place, unit in enumerate(units):
        whole = [message_tokens(render_memory(memory, FULL)) for memory in unit.memories] or [len(unit.text) // 4 + 6]
        is_kept = any("login" in call.name for memory in unit.memories for call in memory.calls)
        if unit.kind is UnitKind.SLICE and unit is slices[-1] and not is_kept:
            total += whole[0] + sum(min(one, 112) for one in whole[1:])
        elif unit.kind in (UnitKind.SLICE, UnitKind.TEXT) and not is_kept and place < len(units) - 1:
            total += min(sum(whole), 70 + 110 * len(unit.memories[0].calls))
        else:
            total += sum(whole)
    return total


def refusal_of(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> PlanError | None:
    try:
        plan_turn(frozen, answers)
    except PlanError as error:
        return error
    return None


def i2_every_call_has_its_results_right_after_it_and_every_result_its_call(example: Example) -> None:
    for _, _, plan in example.made:
        is_whole(plan.messages)


def i3_one_system_message_first_and_a_user_or_tool_message_last(example: Example) -> None:
    for _, _, plan in example.made:
        assert [message.role is Role.SYSTEM for message in plan.messages].index(True) == 0
        assert sum(message.role is Role.SYSTEM for message in plan.messages) == 1
        assert plan.messages[-1].role in (Role.USER, Role.TOOL)


def spoken(memory: Memory) -> str:
    return f"{memory.label}\n{memory.content}" if memory.label else memory.content


def i4_every_prompt_of_the_turn_is_in_every_request_verbatim_and_in_order(example: Example) -> None:
    for frozen, record, plan in example.made:
        prompts = [memory for memory in sorted(record.memories, key=lambda one: one.seq) if memory.role is Role.USER]
        ids = {memory.id for memory in prompts}
        shown = [message.content for message in plan.messages if message.memory_id in ids]
        assert shown == [spoken(memory) for memory in prompts]
        if frozen.is_nudged:
            assert [message.content for message in plan.messages].count(frozen.nudge_text) >= 1


def extends(earlier: Plan, later: Plan) -> bool:
    return later.messages[: len(earlier.messages)] == earlier.messages


def state(plan: Plan) -> tuple[object, ...]:
    """Return the reported changes of packs and memories. The size of a cut pack tells how far it is cut."""
    return (
        [
            (one.id, one.status, one.variant, one.chars if one.id == "system" or one.truncated else 0)
            for one in plan.decisions
        ],
        [(one.kind, one.memory_id, one.after_chars) for one in plan.steps],
    )


def i5_each_request_extends_the_one_before_unless_it_reports_a_compaction(example: Example) -> None:
    made = [plan for _, _, plan in example.made]
    for earlier, later in itertools.pairwise(made):
        if not extends(earlier, later):
            assert state(earlier) != state(later)
            assert later.trimmed


ORDER = {StepKind.LIMIT: 0, StepKind.CUT: 1, StepKind.REASONING: 1, StepKind.SUPERSEDED: 2, StepKind.FOLDED: 3}


def i5_compacted_memories_only_get_shorter(example: Example) -> None:
    made = example.made
    for (_, record, earlier), (_, _, later) in itertools.pairwise(made):
        after = {step.memory_id: step for step in later.steps}
        for step in earlier.steps:
            if step.kind in ORDER and step.pack == "turn":
                now = after[step.memory_id]
                assert ORDER[now.kind] >= ORDER[step.kind]
                assert now.after_chars <= step.after_chars or now.kind is StepKind.FOLDED
        for before in earlier.decisions:
            now_decision = later.decision(before.id)
            assert now_decision is not None
            if before.status is PackStatus.SKIPPED and has_answers(record):
                assert now_decision.status is PackStatus.SKIPPED


def has_answers(record: TurnRecord) -> bool:
    """Return whether the turn has a complete answer; before that, packs are chosen freely."""
    return any(memory.role is Role.ASSISTANT and not memory.partial for memory in record.memories)


def i6_the_same_records_in_any_order_give_the_same_bytes(example: Example) -> None:
    for moment, (frozen, record, plan) in enumerate(example.made):
        shuffled = list(record.memories)
        example.rng.shuffle(shuffled)
        notes = list(record.notes)
        example.rng.shuffle(notes)
        answers = {
            **example.story.at(moment, frozen),
            TurnSoFar(frozen.turn_id): TurnRecord(tuple(shuffled), tuple(notes)),
        }
        assert plan_turn(frozen, answers) == plan


def i7_every_memory_of_the_turn_is_verbatim_or_reported(example: Example) -> None:
    for frozen, record, plan in example.made:
        by_id = {message.memory_id: message for message in plan.messages if message.memory_id is not None}
        reported = {step.memory_id for step in plan.steps}
        for memory in record.memories:
            verbatim = memory.id in by_id and is_verbatim(memory, by_id[memory.id])
            assert verbatim != (memory.id in reported)
        assert {decision.id for decision in plan.decisions} >= {"system", "history", "situation", "turn", "tools"}
        for decision in plan.decisions:
            if decision.status is PackStatus.SKIPPED and decision.wanted_tokens:
                whole = sum(one.wanted_tokens for one in plan.decisions)
                assert bool(decision.setting) != (
                    decision.reason is Reason.MAX_CHARS or whole > tokens_of_characters(frozen)
                )
        if frozen.is_nudged:
            assert plan.decision("order") is not None


def is_verbatim(memory: Memory, message: RequestMessage) -> bool:
    return (
        message.content == spoken(memory)
        and [call.arguments for call in message.calls] == [call.arguments for call in memory.calls]
        and message.reasoning == memory.reasoning
        and message.native == memory.native
    )


def cut_arguments_are_still_json_objects(example: Example) -> None:
    for _, record, plan in example.made:
        stored = {call.wire_id: call.arguments for memory in record.memories for call in memory.calls}
        for message in plan.messages:
            for call in message.calls:
                if call.id in stored and call.arguments != stored[call.id]:
                    assert isinstance(json.loads(call.arguments), dict)


def a_stored_plan_rebuilds_the_sent_messages(example: Example) -> None:
    memories = example.story.recorder.by_id()
    for _, _, plan in example.made:
        kept = json.loads(json.dumps(encode(plan)))
        assert rebuild(kept, memories) == plan.messages


@given(stories(orderly=True), LIMITS)
def test_without_pressure_only_results_over_their_limit_change(story: Story, limits: dict[str, object]) -> None:
    roomy = {**limits, "max_tokens": 10**7, "max_chars": 10**8, "context_window": None}
    for _, _, plan in plans(story, roomy):
        assert not plan.trimmed or any(step.kind is StepKind.LIMIT for step in plan.steps)
        left_out = (StepKind.LIMIT, StepKind.PARTIAL, StepKind.ANSWER)
        assert all(step.kind in left_out for step in plan.steps)


def a_replay_of_an_earlier_plan_does_not_change_a_plan(example: Example) -> None:
    replay = None
    for moment in range(len(example.story.moments)):
        answers = example.story.at(moment, example.frozen)
        refused = refusal_of(example.frozen, answers)
        if refused is not None:
            with pytest.raises(PlanError) as raised:
                plan_next(example.frozen, answers, replay)
            assert (raised.value.what, raised.value.hint) == (refused.what, refused.hint)
            continue
        plan, replay = plan_next(example.frozen, answers, replay)
        assert plan == plan_turn(example.frozen, answers)
        assert encode(plan) == encode(plan_turn(example.frozen, answers))


def a_replay_serves_several_plans_in_any_order(example: Example) -> None:
    replays: list[TurnReplay | None] = [None]
    for _ in range(6):
        answers = example.story.at(example.rng.randrange(len(example.story.moments)), example.frozen)
        if refusal_of(example.frozen, answers) is None:
            plan, replay = plan_next(example.frozen, answers, example.rng.choice(replays))
            assert plan == plan_turn(example.frozen, answers)
            replays.append(replay)


def units_of(story: Story, frozen: FrozenTurn, record: TurnRecord) -> int:
    units, _ = turn_units(frozen, {**story.at(0, frozen), TurnSoFar(frozen.turn_id): record})
    return len(units)


def a_compaction_frees_headroom_if_possible(example: Example) -> None:
    made = example.made
    for (frozen, before, earlier), (_, record, later) in itertools.pairwise(made):
        required = sum(one.tokens for one in later.decisions if one.reason is Reason.REQUIRED and one.id != "turn")
        if later.tokens <= required + (request_limit(frozen).tokens - required) * HEADROOM:
            continue
        if extends(earlier, later):
            continue
        if not has_answers(before):
            continue
        if units_of(example.story, frozen, record) > units_of(example.story, frozen, before) + 1:
            continue  # what came after the compaction may have used the headroom again
        optional = [one for one in later.decisions if one.id in ("history", "said", "situation")]
        assert all(one.status is PackStatus.SKIPPED for one in optional)


OF_ANY_HISTORY = (
    i1_no_request_exceeds_its_budget,
    i2_every_call_has_its_results_right_after_it_and_every_result_its_call,
    i3_one_system_message_first_and_a_user_or_tool_message_last,
    i4_every_prompt_of_the_turn_is_in_every_request_verbatim_and_in_order,
    i6_the_same_records_in_any_order_give_the_same_bytes,
    i7_every_memory_of_the_turn_is_verbatim_or_reported,
    cut_arguments_are_still_json_objects,
    a_stored_plan_rebuilds_the_sent_messages,
    a_replay_of_an_earlier_plan_does_not_change_a_plan,
    a_replay_serves_several_plans_in_any_order,
)
OF_AN_ORDERLY_TURN = (
    i5_each_request_extends_the_one_before_unless_it_reports_a_compaction,
    i5_compacted_memories_only_get_shorter,
    a_compaction_frees_headroom_if_possible,
)
OF_A_REFUSAL = (
    i1_a_refusal_is_correct_and_says_how_to_fix_it,
    i1_a_turn_is_refused_only_if_its_shortest_form_does_not_fit,
)
CHANCE = st.randoms(use_true_random=False)


@given(stories(), LIMITS, CHANCE)
def test_what_holds_for_any_history(story: Story, limits: dict[str, object], rng: random.Random) -> None:
    check_all(OF_ANY_HISTORY, Example(story, limits, rng))


@given(stories(orderly=True, max_events=12), LIMITS, CHANCE)
def test_what_holds_from_request_to_request(story: Story, limits: dict[str, object], rng: random.Random) -> None:
    check_all(OF_AN_ORDERLY_TURN, Example(story, limits, rng))


@given(stories(longest=8000, orderly=True), LIMITS, CHANCE)
def test_what_holds_for_a_refusal(story: Story, limits: dict[str, object], rng: random.Random) -> None:
    check_all(OF_A_REFUSAL, Example(story, limits, rng))
