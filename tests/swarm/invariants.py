"""The invariants I1 to I7 as checks of planned requests, for any history."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence

from tests.swarm.turn_simulator import Planned, Rows
from zoea.context import (
    InheritedMessages,
    Plan,
    StoredAnswer,
    TurnRecord,
    TurnSoFar,
    encode,
    plan_turn,
    rebuild,
    request_limit,
    request_tokens,
)
from zoea.context.labels import with_labels
from zoea.model.enums import Role
from zoea.model.request import RequestMessage
from zoea.model.values import Memory


def check_requests(planned: Sequence[Planned], rows: Rows) -> None:
    """I1 to I8 for every request that was planned, in the order of planning."""
    for one in planned:
        fits_its_budget(one)
        is_whole(one.plan.messages)
        begins_with_the_system_and_ends_with_a_question(one.plan.messages)
        holds_every_prompt_verbatim(one)
        is_the_same_again(one)
        reports_what_it_dropped(one)
        assert rebuild(json.loads(json.dumps(encode(one.plan))), rows.memories | one_memories(one)) == one.plan.messages
    for earlier, later in itertools.pairwise(planned):
        if earlier.frozen.turn_id == later.frozen.turn_id:
            extends_or_reports(earlier.plan, later.plan)
    every_message_is_answered_in_one_turn(rows)


def one_memories(one: Planned) -> dict[int, Memory]:
    """The memories as they stood when the request was planned."""
    found: dict[int, Memory] = {}
    for answer in one.answers.values():
        if not isinstance(answer, StoredAnswer | InheritedMessages):
            for memory in answer.memories if isinstance(answer, TurnRecord) else answer:
                found[memory.id] = memory
    return found


def fits_its_budget(one: Planned) -> None:
    frozen = one.frozen
    tokens = request_tokens(one.plan.messages, tools_tokens=frozen.tools_tokens, calibration=frozen.calibration)
    assert tokens == one.plan.tokens <= request_limit(frozen).tokens <= frozen.max_tokens


def is_whole(messages: Sequence[RequestMessage]) -> None:
    waiting: list[str] = []
    for message in messages:
        if message.role is Role.TOOL:
            assert waiting
            assert waiting.pop(0) == message.call_id
        else:
            assert not waiting
            waiting = [call.id for call in message.calls]
    assert not waiting


def begins_with_the_system_and_ends_with_a_question(messages: Sequence[RequestMessage]) -> None:
    assert [message.role for message in messages].count(Role.SYSTEM) == 1
    assert messages[0].role is Role.SYSTEM
    assert messages[-1].role in (Role.USER, Role.TOOL)


def spoken(memory: Memory, label_to: str) -> str:
    [shown] = with_labels((memory,), label_to)
    return f"{shown.label}\n{shown.content}" if shown.label else shown.content


def holds_every_prompt_verbatim(one: Planned) -> None:
    prompts = [memory for memory in one.record.memories if memory.role is Role.USER]
    shown = {message.memory_id: message.content for message in one.plan.messages if message.memory_id is not None}
    assert [shown.get(memory.id) for memory in prompts] == [spoken(memory, one.frozen.label_to) for memory in prompts]
    if one.frozen.is_nudged:
        assert one.frozen.nudge_text in [message.content for message in one.plan.messages]


def is_the_same_again(one: Planned) -> None:
    record = one.record
    shuffled = random.Random(7).sample(record.memories, len(record.memories))
    again = {**one.answers, TurnSoFar(one.frozen.turn_id): TurnRecord(tuple(shuffled), record.notes)}
    assert plan_turn(one.frozen, again) == one.plan


def reports_what_it_dropped(one: Planned) -> None:
    by_id = {message.memory_id: message for message in one.plan.messages if message.memory_id is not None}
    reported = {step.memory_id for step in one.plan.steps}
    for memory in one.record.memories:
        verbatim = memory.id in by_id and is_verbatim(memory, by_id[memory.id], one.frozen.label_to)
        assert verbatim != (memory.id in reported)


def is_verbatim(memory: Memory, message: RequestMessage, label_to: str) -> bool:
    return (
        message.content == spoken(memory, label_to)
        and [call.arguments for call in message.calls] == [call.arguments for call in memory.calls]
        and message.reasoning == memory.reasoning
    )


def extends_or_reports(earlier: Plan, later: Plan) -> None:
    if later.messages[: len(earlier.messages)] != earlier.messages:
        assert later.trimmed
        assert decided(earlier) != decided(later)


def decided(plan: Plan) -> tuple[object, ...]:
    """Return what a plan did to packs and memories that it could not show whole."""
    return (
        [(one.id, one.status, one.variant, one.chars if one.id == "system" else 0) for one in plan.decisions],
        [(one.kind, one.memory_id, one.after_chars) for one in plan.steps],
    )


def every_message_is_answered_in_one_turn(rows: Rows) -> None:
    for message in rows.inbox.values():
        prompts = [one for one in rows.memories.values() if one.message_id == message.id]
        if message.turn_id is None:
            assert prompts == []
        else:
            assert [one.turn_id for one in prompts] == [message.turn_id]
            assert prompts[0].content == message.text
