"""JSON columns of an import are converted to the new ids or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from tests.case_tables import walk_cases
from tests.fakes.memory_store import memory_store
from tests.transfer.sample_exports import SETTINGS
from zoea.context import FrozenTurn, TopicRules
from zoea.transfer import jsonl_parser
from zoea.transfer.conflicts import ImportTarget
from zoea.transfer.nova_turns import UNKNOWN_TOOL, parse_calls

PLAN = {"v": 1, "budget": {}, "decisions": [], "steps": [], "messages": []}


def make_plan(*messages: Any) -> Any:
    made = jsonl_parser.convert_plan({**PLAN, "messages": list(messages)}, {7: 70, 8: 80}, {3: 30})
    assert made is not None
    return json.loads(made)["messages"]


def test_a_plan_is_converted_to_the_new_ids() -> None:
    said = {
        "t": "cut",
        "role": "assistant",
        "id": 8,
        "calls": [["c3", "act", "{}"], ["c4", "act", "{}"], ["x", "y", ""]],
    }
    result = {"t": "ok", "role": "tool", "call_id": "c3"}
    assert make_plan({"m": 7, "f": "full"}, {"m": 9, "f": "cut", "k": 4}, said, result) == [
        {"m": 70, "f": "full"},
        {"m": 0, "f": "cut", "k": 4},  # not in the file
        {**said, "id": 80, "calls": [["c30", "act", "{}"], ["c0", "act", "{}"], ["x", "y", ""]]},
        {**result, "call_id": "c30"},
    ]
    assert jsonl_parser.convert_plan(None, {}, {}) is None
    assert jsonl_parser.convert_plan({"zstd": "00"}, {}, {}) is None


@walk_cases(
    "wrong",
    [
        {**PLAN, "v": "1"},
        {**PLAN, "messages": [{"t": 5, "role": "user"}]},
        {**PLAN, "messages": [{"t": "x", "role": "user", "calls": [[1, 2, 3]]}]},
        {**PLAN, "decisions": [dict.fromkeys(("id", "section", "status", "reason", "tokens"), "x")]},
        {**PLAN, "steps": [{}]},
        "a plan",
    ],
)
def test_an_invalid_plan_is_refused(wrong: Any) -> None:
    with pytest.raises(jsonl_parser.InvalidColumn):
        jsonl_parser.convert_plan(wrong, {}, {})


_COUNTS = {"turn_number", "plan_version", "nudge_level", "scan_window", "max_tokens", "max_chars", "max_output_tokens"}
_COUNTS |= {"context_window", "tools_tokens", "withheld_tokens", "max_result_chars", "keep_turns", "earlier_tokens"}
_COUNTS |= {"recall_items", "task_tokens", "inherited_tokens", "mission_tokens", "all_tools_tokens"}
_COUNTS |= {"own_tokens", "agent_tokens"}


@pytest.mark.parametrize("kind", [FrozenTurn, TopicRules])
def test_each_number_of_a_frozen_turn_is_a_count_or_is_converted(kind: type[FrozenTurn | TopicRules]) -> None:
    """A new number that is the id of a row must be converted. One that is not belongs to the counts."""
    names = {field.name for field in structs.fields(kind) if field.type in (int, int | None)}
    numbers: dict[str, Any] = dict.fromkeys(names, 7)
    turn = FrozenTurn(**{"mysis_id": 7, "turn_id": 7, "turn_number": 7, **numbers}) if kind is FrozenTurn else None
    frozen = turn or FrozenTurn(7, 7, 7, topics=TopicRules(**numbers))
    ids = jsonl_parser.RowIds({7: 70}, {7: 70}, {7: 70}, {7: 70}, {})
    moved = json.loads(jsonl_parser.convert_frozen(frozen.to_json(), ids, mysis_id=70, turn_id=70))
    if kind is TopicRules:
        moved = moved["topics"]
    assert {name for name in names if moved[name] == 7} == names & _COUNTS


@walk_cases(
    ("content", "expected"),
    [
        ("[TOOL_CALLS]a:look", [("a", "look", "{}")]),
        ("[TOOL_CALLS]a:look|b:see:{}", [("a", "look", "{}"), ("b", "see", "{}")]),
        ("[TOOL_CALLS] a:look: |b:see:null", [("a", "look", "{}"), ("b", "see", "{}")]),
        ("[TOOL_CALLS]:look:{}", [("", "look", "{}")]),
        ("[TOOL_CALLS]a:!:{}", [("", UNKNOWN_TOOL, "a:!:{}")]),
        ("[TOOL_CALLS]a:look{}|b:see:{}", [("", UNKNOWN_TOOL, "a:look{}"), ("b", "see", "{}")]),
        ('[TOOL_CALLS]a:look:{"x":|b:see:{}', [("a", "look", '{"x":'), ("b", "see", "{}")]),
        ('[TOOL_CALLS]a:look:{"x":1}}', [("a", "look", '{"x":1}')]),
        ('[TOOL_CALLS]a:look:"{\\"x\\":1}"', [("a", "look", '{"x":1}')]),
        ("[TOOL_CALLS]", []),
    ],
)
def test_malformed_stored_calls_are_parsed(content: str, expected: list[tuple[str, str, str]]) -> None:
    found = parse_calls(content)
    assert found is not None
    assert [(one.id, one.name, one.arguments) for one in found] == expected
    assert parse_calls(content[1:]) is None


def test_an_idempotency_key_in_use_stays_with_its_message() -> None:
    conn = memory_store()
    arrivals = ImportTarget(conn, SETTINGS.swarm.max_myses)
    said = {"kind": "direct", "sender_kind": "commander", "content": "Go", "idempotency_key": "k", "created_at": 1}
    first = arrivals.message(said, 1)
    second = arrivals.message({**said, "content": "Come"}, 1)
    keys = dict(conn.execute("SELECT id, idempotency_key FROM message").fetchall())
    assert keys == {first: "k", second: None}
    conn.close()


def test_a_long_name_in_use_keeps_its_length() -> None:
    conn = memory_store()
    arrivals = ImportTarget(conn, SETTINGS.swarm.max_myses)
    name = "n" * 40
    sender = arrivals.sender("u-1", name)
    assert arrivals.sender("u-1", "other") == sender
    assert arrivals.known("u-1") is None
    conn.execute("UPDATE mysis SET state_reason = '', deleted_at = NULL")
    again = ImportTarget(conn, SETTINGS.swarm.max_myses)
    assert again.known("u-1") == name
    assert again.free_name(name.upper()) == "N" * 38 + "-2"
    conn.execute("UPDATE mysis SET deleted_at = 1")
    assert again.known("u-1") == f"{name}, which is deleted"
    conn.close()
