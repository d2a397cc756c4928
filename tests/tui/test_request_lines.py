"""Inspector lines: packs and steps in words, shares in the bar."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from tests.case_tables import walk_cases
from zoea.context import Budget, Decision, PackStatus, Plan, PlanStep, Priority, Reason, StepKind, Truncation, Variant
from zoea.context.forms import FormKind
from zoea.model.enums import Role
from zoea.model.request import RequestCall, RequestMessage
from zoea.model.values import Native, Usage
from zoea.queries.request_inspection import Inspection, SentMessage, StoredRequest
from zoea.tui.conversation.request_lines import (
    build_head_lines,
    build_message_items,
    build_pack_bar,
    build_plan_lines,
    build_request_line,
    describe_form,
)
from zoea.tui.text_layout import Piece

REQUEST = StoredRequest(
    id=7,
    mysis_id=1,
    mysis="alpha",
    turn_number=3,
    opened_by="prompt",
    purpose="turn",
    iteration=2,
    attempt=1,
    provider="ollama",
    model="qwen3:8b",
    catalogue_hash="",
    estimated_tokens=1_030,
    planned_tokens=1_030,
    calibration=1.0,
    reserved_tokens=5_000,
    state="settled",
    usage=Usage(1_000, 200, 50, 20, 1_500_000),
    error_class="",
    finish_reason="stop",
    first_token_us=400_000,
    duration_us=2_100_000,
    created_at=1_700_000_000_000_000,
    has_plan=True,
)

KEPT = Decision("turn", "turn", Priority.REQUIRED, PackStatus.INCLUDED, Variant.FULL, Reason.REQUIRED, 400, 100)
COMPACT = Decision(
    "history",
    "history",
    Priority.HIGH,
    PackStatus.INCLUDED,
    Variant.COMPACT,
    Reason.BUDGET,
    40,
    10,
    truncated=True,
    wanted_tokens=900,
    setting="budget.token_budget_per_agent = 2000",
)
OUT = Decision("said", "said", Priority.LOW, PackStatus.SKIPPED, None, Reason.BUDGET, wanted_tokens=3_000)
EMPTY = Decision("situation", "situation", Priority.LOW, PackStatus.SKIPPED, None, Reason.EMPTY)
PLAN = Plan(
    decisions=(KEPT, COMPACT, OUT, EMPTY),
    budget=Budget(1_000, 0, 25, 1_025),
    truncation=Truncation(False, 0, 0),
    messages=(),
    steps=(PlanStep(StepKind.CUT, 12, 182_000, 4_000),),
)


def words(lines: list[list[Piece]]) -> str:
    return "\n".join("".join(text for text, _ in line) for line in lines)


def test_an_estimate_by_characters_and_the_one_by_earlier_counts_are_both_shown() -> None:
    request = replace(REQUEST, estimated_tokens=2_700, planned_tokens=808, calibration=0.3, usage=Usage(800))
    assert request.off_by == pytest.approx(0.01)
    assert "~808 tokens estimated (1 % too high)  800 by the provider's count" in words(
        build_head_lines(request, request.created_at)
    )
    said = words(build_plan_lines(Inspection(request, PLAN, (), ()), 70))
    assert "~2.7k estimated from its length, × 0.30 as past counts taught" in said
    assert "by characters" not in words(build_plan_lines(Inspection(REQUEST, PLAN, (), ()), 70))


def test_each_pack_shows_its_form_and_the_setting_that_would_keep_it() -> None:
    narrow = words(build_plan_lines(Inspection(REQUEST, PLAN, (), ()), 46))
    assert "nothing to add" in narrow, "whole also beside the messages of a terminal of 120 columns"
    said = words(build_plan_lines(Inspection(REQUEST, PLAN, (), ()), 70))
    for expected in (
        "~1k of 1k tokens",
        "~25 over: the parts that are always sent exceed the limit",
        "always sent",
        "compact",
        "parts of it cut",
        "budget.token_budget_per_agent = 2000 would have kept it whole",
        "left out",
        "wants ~3k",
        "empty",
        "cut to head and tail (182.0 kB → 4.0 kB)",
    ):
        assert expected in said, expected


def test_the_bar_has_the_full_width_and_shows_every_used_pack() -> None:
    for width in (5, 20, 80):
        bar = build_pack_bar(PLAN, width)
        assert cell_len("".join(text for text, _ in bar)) == width
        assert [role for text, role in bar if text.startswith("━")] == ["llm", "running"]


def test_estimate_and_actual_usage_are_shown() -> None:
    said = words(build_head_lines(REQUEST, REQUEST.created_at))
    for expected in (
        "answered",
        "~1k tokens estimated (3 % too high)",
        "1k by the provider's count",
        "200 cached",
        "20 reasoning",
        "$1.50",
    ):
        assert expected in said, expected


@walk_cases(
    ("changed", "said"),
    [
        ({"error_class": "transient", "attempt": 2}, "failed: likely temporary  attempt 2"),
        ({"state": "released", "error_class": "cancelled"}, "was never sent"),
        ({"state": "refused"}, "refused: over a budget"),
        ({"state": "reserved", "duration_us": None, "finish_reason": ""}, "under way"),
        ({"state": "estimated"}, "answered (tokens are an estimate)"),
        ({"usage": Usage()}, "nothing by the provider's count"),
    ],
)
def test_the_end_of_a_request_is_described(changed: dict[str, object], said: str) -> None:
    request = replace(REQUEST, **changed)
    assert said in words(build_head_lines(request, REQUEST.created_at))
    assert build_request_line(request)


@walk_cases(
    ("form", "kept", "memory", "said"),
    [
        ("", 0, None, ""),
        ("", 0, 5, "cut as a message"),
        ("full", 0, 5, "in full"),
        ("bare", 0, 5, "in full, reasoning left out"),
        ("cut", 4_000, 5, "cut to 4.0 kB"),
        ("tail", 900, 5, "its last 900 B"),
        ("superseded", 0, 5, "superseded by a later call"),
        ("order", 0, 5, "shown again as data"),
        ("recall", 400, 5, "recalled: up to 400 B of it"),
    ],
)
def test_the_form_of_a_message_is_described(form: str, kept: int, memory: int | None, said: str) -> None:
    assert describe_form(SentMessage(RequestMessage(Role.USER, "x", memory_id=memory), form, kept, 1)) == said


@walk_cases("kind", FormKind)
def test_no_form_of_a_memory_is_without_words(kind: FormKind) -> None:
    assert describe_form(SentMessage(RequestMessage(Role.USER, "x", memory_id=5), kind, 400, 1))


def test_an_unfolded_message_shows_everything_that_was_sent() -> None:
    message = RequestMessage(
        Role.ASSISTANT,
        "text",
        calls=(RequestCall("c1", "look", '{"a": 1}'),),
        reasoning="thought",
        native=Native("anthropic", "claude", "[signed]"),
    )
    result = RequestMessage(Role.TOOL, "no", call_id="c1", name="look", is_error=True)
    first, second = build_message_items((SentMessage(message, "full", 0, 9), SentMessage(result, "cut", 10, 2)))
    below = "\n".join(text for text, _ in first.body)
    for part in ("thought", "[signed]", "text", 'look({"a": 1})  c1'):
        assert part in below
    assert "failed" in "".join(text for text, _ in second.head)
