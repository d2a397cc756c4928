"""The codec: values of the model survive encoding and decoding; wrong values are reported with their place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.ipc.codec import Mismatch, decode, encode
from zoea.model.enums import Activity, MysisState, Role, Source
from zoea.model.request import ToolResult
from zoea.model.values import (
    ApprovalView,
    Event,
    Failure,
    Lagged,
    Memory,
    MysisView,
    Receipt,
    ReceiptLine,
    Recipients,
    SwarmView,
    ToolCall,
)

VIEWS = st.builds(MysisView)


@given(st.one_of(VIEWS, st.builds(SwarmView, myses=st.tuples(VIEWS)), st.builds(Receipt), st.builds(Recipients)))
def test_a_value_survives_encoding_and_decoding(value: Any) -> None:
    assert decode(type(value), json.loads(json.dumps(encode(value)))) == value


@given(st.builds(Event), st.builds(ApprovalView), st.builds(Memory))
def test_events_approvals_and_memories_survive_encoding_and_decoding(
    event: Event, approval: ApprovalView, memory: Memory
) -> None:
    for value in (event, approval, memory):
        assert decode(type(value), json.loads(json.dumps(encode(value)))) == value


def test_a_union_is_decoded_by_its_fields() -> None:
    assert decode(Event | Lagged, encode(Lagged(4))) == Lagged(4)
    assert decode(Event | Lagged, encode(Event(1, "k", None))) == Event(1, "k", None)


def test_bytes_are_encoded_as_hexadecimal() -> None:
    call = ToolCall(1, 0, "mine", "{}", fingerprint=b"\x00\xff")
    assert decode(ToolCall, encode(call)) == call
    with pytest.raises(Mismatch, match="hexadecimal"):
        decode(bytes, "zz")


def test_an_integer_is_accepted_as_a_float_but_no_float_as_an_integer() -> None:
    assert decode(float, 5) == 5.0
    with pytest.raises(Mismatch, match="int expected, not float"):
        decode(int, 5.0)
    with pytest.raises(Mismatch, match="int expected, not bool"):
        decode(int, True)


@walk_cases(
    ("kind", "value", "what"),
    [
        (ReceiptLine, [], "ReceiptLine: an object expected"),
        (ReceiptLine, {"mysis": "a"}, "'status' is missing"),
        (ReceiptLine, {"mysis": "a", "status": "b", "x": 1}, "no field 'x'"),
        (Receipt, {"message_id": 1, "lines": [{"mysis": 5, "status": "b"}]}, "lines[0].mysis: str expected, not int"),
        (Receipt, {"message_id": 1, "lines": {}}, "lines: a list expected"),
        (MysisState, "asleep", "one of idle, running, stopped, errored expected"),
        (Event, {"id": 1, "kind": "k", "mysis_id": None, "data": []}, "data: an object expected"),
        (Event, {"id": 1, "kind": "k", "mysis_id": None, "data": {"a": []}}, "data.a"),
        (type(None), 1, "null expected"),
        (Failure | None, 5, "an object expected"),
    ],
)
def test_a_wrong_value_is_reported_with_its_place(kind: Any, value: Any, what: str) -> None:
    with pytest.raises(Mismatch) as caught:
        decode(kind, value)
    assert what in str(caught.value)


def test_enumerations_are_encoded_as_their_values() -> None:
    assert encode((MysisState.IDLE, Activity.LLM, Role.TOOL, Source.LLM)) == ["idle", "llm", "tool", "llm"]
    assert decode(Any, {"free": [1]}) == {"free": [1]}


def test_a_value_without_json_form_raises_a_type_error() -> None:
    with pytest.raises(TypeError):
        encode(object())
    with pytest.raises(TypeError):
        decode("nonsense", 1)
    assert encode({"a": ToolResult("x")})["a"]["content"] == "x"
