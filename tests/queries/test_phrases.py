"""Sentences for events, approvals and failures."""

from __future__ import annotations

from typing import Any

import pytest

from tests.case_tables import walk_cases
from zoea.model.enums import ASK_TOOL
from zoea.model.values import ApprovalView, Event
from zoea.queries.phrases import (
    EventTextSource,
    approval_phrase,
    budget_phrase,
    context_phrase,
    event_sentence,
    event_subject,
    event_text_source,
    failure_phrase,
    is_trouble,
)
from zoea.swarm.turn import loop_guard
from zoea.swarm.turn.machine import OUTPUT_NOTE
from zoea.text.amounts import short_count


@walk_cases(
    ("kind", "data", "needs"),
    [
        ("turn.ended", {"turn": 7}, (EventTextSource.ANSWER, 7)),
        ("message.sent", {"message": 4}, (EventTextSource.MESSAGE, 4)),
        ("message.sent", {}, None),
        ("approval.asked", {"approval": 3}, (EventTextSource.ASKED, 3)),
        ("mysis.state", {"state": "errored", "error": "No key"}, (EventTextSource.FAILURE, 1)),
        ("mysis.state", {"state": "idle", "error": ""}, None),
        ("turn.opened", {"turn": 7}, None),
    ],
)
def test_an_event_names_the_text_it_needs(
    kind: str, data: dict[str, Any], needs: tuple[EventTextSource, int] | None
) -> None:
    assert event_text_source(Event(1, kind, 1, data)) == needs


@walk_cases(
    ("kind", "data", "said"),
    [
        ("turn.ended", {"outcome": "answered"}, "hello {0} [/]"),
        ("turn.ended", {"outcome": "loop"}, "turn ended: loop. hello {0} [/]"),
        ("turn.ended", {"outcome": "failed"}, "turn failed. hello {0} [/]"),
        ("turn.broke_off", {"why": "failed"}, "turn failed. hello {0} [/]"),
        ("message.sent", {"said": "broadcast"}, "to all: hello {0} [/]"),
        ("mysis.configured", {"changed": "model, budget.mysis"}, "is configured: new model, budget.mysis"),
        ("mysis.configured", {"changed": ""}, "is configured, as it was before"),
        ("mysis.configured", {}, "has a new configuration"),
        ("message.sent", {"said": "direct"}, "says: hello {0} [/]"),
        (
            "budget.refused",
            {"scope": "swarm", "used": 5, "limit": 4},
            "budget of the swarm today has no room for the request: 5 of 4 tokens used",
        ),
        (
            "budget.refused",
            {"scope": "swarm", "used": 934_300, "limit": 1_000_000, "unit": "money"},
            "budget of the swarm today has no room for the request: $0.9343 of $1.00 used",
        ),
        (
            "budget.warning",
            {"scope": "swarm", "used": 807_300, "limit": 1_000_000, "unit": "money"},
            "budget of the swarm today: $0.8073 of $1.00 used",
        ),
        (
            "budget.warning",
            {"scope": "turn", "used": 161_000, "limit": 200_000},
            "budget of this turn: 161,000 of 200,000 tokens used",
        ),
        (
            "budget.refused",
            {"scope": "background", "used": 5, "limit": 50, "needed": 900},
            "its summary has chosen lines instead of a model's prose, because that needs budget.background = 900, "
            "which is 50",
        ),
        (
            "budget.refused",
            {"scope": "background", "used": 5, "limit": 4},
            "budget of summaries today has no room for the request: 5 of 4 tokens used",
        ),
        ("context.summary", {"messages": 4, "tokens": 12_000}, "Previous context summary added"),
        (
            "approval.answered",
            {"approval": 4, "answer": "once", "changed": True},
            "approval 4: allowed once, with changed arguments",
        ),
        ("approval.answered", {"approval": 4, "answer": "once"}, "approval 4: allowed once, or its question answered"),
        (
            "approval.answered",
            {"approval": 4, "answer": "once", "by_grant": True},
            "approval 4: allowed by the grant for another question",
        ),
        ("approval.answered", {"approval": 4, "answer": "denied"}, "approval 4: denied"),
        ("approval.answered", {"approval": 4, "answer": "template"}, "approval 4: allowed for its template"),
        ("hold.set", {}, "is paused"),
        ("hold.set", {"reason": "{x}"}, "is paused: {x}"),
        ("hold.lifted", {}, "goes on: its pause is lifted"),
    ],
)
def test_a_text_is_quoted_unchanged(kind: str, data: dict[str, Any], said: str) -> None:
    assert event_sentence(Event(1, kind, 1, data), "hello {0} [/]") == said


def test_a_reason_equal_to_the_title_of_the_error_is_not_repeated() -> None:
    event = Event(1, "mysis.state", 1, {"state": "errored", "error": "No key", "reason": "No key"})
    assert event_sentence(event) == "is errored: No key"
    assert event_sentence(event, "401. Set it.") == "is errored: No key. 401. Set it."
    other = Event(1, "mysis.state", 1, {"state": "idle", "error": "Circuit breaker open", "reason": "three nudges"})
    assert event_sentence(other) == "is idle: Circuit breaker open; three nudges"


@walk_cases(
    ("tool", "kind", "arguments", "said"),
    [
        ("sell", "tool", '{"item": "ore", "n": 40}', 'asks to run sell(item="ore", n=40)'),
        ("sell", "tool", '{"session_id": "‹account›"}', "asks to run sell()"),
        (ASK_TOOL, "tool", '{"question": "Which belt?"}', "asks: Which belt?"),
        (ASK_TOOL, "tool", '{"question": "a\\u009d"}', "asks: a\\u009d"),
        (ASK_TOOL, "tool", '{"question": "a\\\\u009d"}', "asks: a\\\\u009d"),
        (
            "go on beyond the budget",
            "budget",
            '{"budget": "turn", "used": 5, "limit": 4}',
            "asks to go on beyond the budget: up to 5 of 4 tokens (this turn)",
        ),
        (
            "go on beyond the budget",
            "budget",
            '{"budget": "mysis money", "used": 546830, "limit": 500000}',
            "asks to go on beyond the budget: up to $0.5468 of $0.50 (this mysis)",
        ),
        ("go on beyond the budget", "budget", "{", "asks to go on beyond the budget"),
    ],
)
def test_an_approval_is_described_by_its_question_or_call(tool: str, kind: str, arguments: str, said: str) -> None:
    assert approval_phrase(ApprovalView(1, 1, "alpha", tool, "", arguments, 0, 0, kind)) == said


def test_the_subject_of_an_event_has_a_name_or_a_number() -> None:
    names = {1: "alpha"}
    assert event_subject(Event(1, "turn.opened", 1), names) == "alpha"
    assert event_subject(Event(1, "turn.opened", 2), names) == "#2"
    assert event_subject(Event(1, "message.sent", None), names) == "you"
    assert event_subject(Event(1, "hold.set", None), names) == "swarm"


@walk_cases(
    ("kind", "data", "bad"),
    [
        ("mysis.state", {"state": "errored"}, True),
        ("mysis.state", {"state": "idle"}, False),
        ("turn.ended", {"outcome": "loop"}, True),
        ("turn.ended", {"outcome": "answered"}, False),
        ("turn.broke_off", {"why": "failed"}, True),
        ("turn.broke_off", {"why": "crashed"}, False),
        ("budget.refused", {}, True),
        ("hold.set", {}, False),
    ],
)
def test_trouble_is_recognized(kind: str, data: dict[str, Any], bad: bool) -> None:
    assert is_trouble(Event(1, kind, 1, data)) is bad


@walk_cases(
    ("state", "error_class", "said"),
    [
        ("settled", "", ""),
        ("released", "transient", "failed: likely temporary"),
        ("released", "cancelled", "was never sent"),
        ("settled", "cancelled", "failed: cancelled"),
        ("refused", "", "was refused: over a budget"),
    ],
)
def test_a_released_request_did_not_fail(state: str, error_class: str, said: str) -> None:
    assert failure_phrase(state, error_class) == said


@walk_cases(
    ("count", "said"),
    [
        (999, "999"),
        (1_000, "1k"),
        (1_100, "1.1k"),
        (6_240, "6.2k"),
        (50_000, "50k"),
        (45_200, "45.2k"),
        (2_000_000, "2M"),
    ],
)
def test_counts_are_written_short(count: int, said: str) -> None:
    assert short_count(count) == said


def test_a_request_is_described_as_in_shannon() -> None:
    assert context_phrase(50, 6_210) == "Preparing context (50 msgs, ~6.2k tokens)"
    assert budget_phrase(14_800, 50_000) == "Budget used: 14.8k/50k"
    assert (context_phrase(0, 6_210), budget_phrase(999, 0)) == ("Preparing context (~6.2k tokens)", "Budget used: 999")


@pytest.mark.parametrize("kind", [loop_guard.NOTE_KIND, OUTPUT_NOTE])
def test_a_note_says_what_was_noted_not_its_kind(kind: str) -> None:
    said = event_sentence(Event(1, "turn.note", 1, {"turn": 2, "note": kind}))
    assert said.startswith("Zoea notes: it")
