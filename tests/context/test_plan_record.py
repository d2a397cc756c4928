"""Stored turns and plans are restored exactly."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from tests.context.sample_histories import Asked, Recorder
from zoea.context import FrozenTurn, Pack, Plan, encode, memories_of, plan, rebuild
from zoea.model.enums import OpenedBy, Role, Source
from zoea.model.errors import PlanError
from zoea.model.request import RequestCall, RequestMessage
from zoea.model.values import Native

FROZEN = st.builds(
    FrozenTurn,
    mysis_id=st.integers(1),
    turn_id=st.integers(1),
    turn_number=st.integers(1),
    system=st.text(),
    template_hash=st.text("0123456789abcdef"),
    opened_by=st.sampled_from(OpenedBy),
    nudge_text=st.text(),
    situation=st.text(),
    calibration=st.floats(0.1, 10),
    context_window=st.none() | st.integers(1),
    snapshot_tools=st.tuples(st.text()),
    keep_tools=st.lists(st.text()).map(tuple),
)


@given(FROZEN)
def test_a_frozen_turn_is_restored_from_json_and_its_prompt(frozen: FrozenTurn) -> None:
    assert FrozenTurn.from_json(frozen.to_json(), system=frozen.system) == frozen


def test_the_json_holds_the_hash_of_the_template_and_not_its_text() -> None:
    text = FrozenTurn(1, 2, 3, system="the secret prompt", template_hash="abc").to_json()
    assert "secret" not in text
    assert json.loads(text)["template_hash"] == "abc"


@walk_cases(
    "text",
    ["", "{", "[]", '{"mysis_id": 1}', '{"mysis_id":1,"turn_id":1,"turn_number":1,"newer":2}', '{"opened_by":7}'],
)
def test_damaged_or_newer_json_is_an_error_with_a_hint(text: str) -> None:
    with pytest.raises(PlanError) as raised:
        FrozenTurn.from_json(text, system="")
    assert raised.value.hint


def working() -> Recorder:
    recorder = Recorder().open("first", label="[message from mysis alpha]")
    recorder.slice("mine", "ore " * 3000)
    recorder.answer("mined " * 200)
    recorder.open()
    for number in range(12):
        native = Native("anthropic", "m", "[]")
        answer = recorder.answer("", Asked("mine", '{"x": "' + "y" * 3000 + '"}'), reasoning="r", native=native)
        recorder.result(answer, 0, f"ore {number} " * 100, is_error=number % 2 == 0)
    recorder.note("You repeat yourself.")
    return recorder


def through_json(made: Plan) -> dict[str, object]:
    back: dict[str, object] = json.loads(json.dumps(encode(made)))
    return back


@walk_cases("max_tokens", [1800, 4000, 9000, 50_000])
def test_messages_are_stored_as_memory_and_form_and_rebuilt_exactly(max_tokens: int) -> None:
    recorder = working()
    made = recorder.plan(max_tokens=max_tokens, situation="tick 7")
    assert rebuild(through_json(made), recorder.by_id()) == made.messages


def test_the_text_of_memories_is_not_repeated_in_the_record() -> None:
    recorder = working()
    made = recorder.plan()
    encoded = json.dumps(encode(made))
    assert "ore 3" not in encoded
    assert "first" not in encoded
    assert set(memories_of(encode(made))) == {one.memory_id for one in made.messages if one.memory_id is not None}


def test_a_compacted_turn_is_stored_as_memories_and_forms() -> None:
    recorder = working()
    encoded = encode(recorder.plan(max_tokens=4000))
    literal = [one for one in encoded["messages"] if "t" in one]
    assert [one["t"][:22] for one in literal if one["role"] == "assistant"] == ["(earlier in this turn:"]
    assert {one["f"] for one in encoded["messages"] if "f" in one} >= {"full", "cut"}
    assert "ore 11 ore 11" not in json.dumps(encoded)


def test_messages_without_a_memory_are_stored_whole() -> None:
    messages = (
        RequestMessage(Role.USER, "hello", Source.TOPIC),
        RequestMessage(Role.ASSISTANT, "", Source.LLM, calls=(RequestCall("c1", "mine", "{}"),), reasoning="r"),
        RequestMessage(Role.TOOL, "ore", Source.TOOL, call_id="c1", name="mine", is_error=True, memory_id=7),
        RequestMessage(Role.ASSISTANT, "x", Source.LLM, native=Native("p", "m", "[]")),
    )
    made = plan([Pack("system", "system", "required", "prompt"), Pack("a", "s", "high", messages)])
    assert rebuild(through_json(made), {}) == made.messages
    assert made.messages[0].role is Role.SYSTEM


def test_a_missing_memory_is_named() -> None:
    recorder = working()
    with pytest.raises(PlanError, match="Memory 1, which the request held, is gone"):
        rebuild(encode(recorder.plan()), {})


def test_a_record_of_another_version_is_refused() -> None:
    with pytest.raises(PlanError, match="version 2"):
        rebuild({"v": 2, "messages": []}, {})


def test_the_record_holds_decisions_steps_and_budget() -> None:
    encoded = encode(working().plan(max_tokens=4000))
    assert encoded["v"] == 1
    assert {one["id"] for one in encoded["decisions"]} >= {"system", "order", "history", "said", "turn", "tools"}
    assert encoded["budget"]["max_tokens"] == 4000
    assert {one["kind"] for one in encoded["steps"]} >= {"folded"}
