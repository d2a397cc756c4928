"""Tools for models that cannot call any: one object per answer, valid by its schema."""

from __future__ import annotations

import json

import pytest

from tests.llm.asking import SCAN, assistant, call, request, result, system, user
from zoea.llm.config import ProviderConfig, ToolMode
from zoea.llm.openai_wire import body_of
from zoea.llm.structured import MAX_STRING, read, schema
from zoea.model.request import AnswerCall, ToolSpec

LIST = "the arguments must be one JSON object, not a list"
ROLES = {
    "type": "object",
    "properties": {"to": {"type": "string", "enum": ["a"]}, "many": {"anyOf": [{"type": "string"}]}},
}


def test_the_schema_allows_each_call_or_an_answer() -> None:
    built = schema((SCAN, ToolSpec("hail", "", ROLES), ToolSpec("rest", "", {})))
    scan, hail, rest, text = built["anyOf"]
    assert scan["properties"]["name"] == {"const": "scan"}
    assert scan["properties"]["arguments"]["properties"]["sector"] == {"type": "string", "maxLength": MAX_STRING}
    assert hail["properties"]["arguments"]["properties"]["to"] == {"type": "string", "enum": ["a"]}
    assert hail["properties"]["arguments"]["properties"]["many"]["anyOf"][0]["maxLength"] == MAX_STRING
    assert rest["properties"]["arguments"] == {"type": "object"}
    assert text["required"] == ["answer"]
    assert all(option["additionalProperties"] is False for option in built["anyOf"])


def test_the_conversation_is_shown_in_the_same_form() -> None:
    said = [system(), user(), assistant("", call()), result("ore"), result("lost", "c2", is_error=True)]
    asked = request(*said, assistant("done"), user(), tools=(SCAN,))
    config = ProviderConfig("openai", tool_mode=ToolMode.JSON_SCHEMA)
    sent = body_of(asked, config, provider="reefnet")
    told, _, step, results, done, _ = sent["messages"]
    assert "- scan: Look around" in told["content"]
    assert told["content"].startswith("You are a mysis.")
    assert json.loads(step["content"]) == {"name": "scan", "arguments": {"sector": "a"}}
    assert results["content"] == "Result of scan:\nore\n\nResult of scan:\nError: lost"
    assert json.loads(done["content"]) == {"answer": "done"}
    assert {one["role"] for one in sent["messages"]} == {"system", "user", "assistant"}
    assert "tools" not in sent


@pytest.mark.parametrize(
    ("said", "text", "calls"),
    [
        ('{"name": "scan", "arguments": {"sector": "b"}}', "", (AnswerCall("scan", '{"sector":"b"}'),)),
        ('{"name": "scan"}', "", (AnswerCall("scan", "{}"),)),
        ('{"name": "scan", "arguments": [1]}', "", (AnswerCall("scan", "[1]", broken=LIST),)),
        ('{"answer": "done"}', "done", ()),
        ('{"other": 1}', '{"other": 1}', ()),
        ("just text", "just text", ()),
    ],
)  # fmt: skip
def test_an_answer_is_a_call_or_a_text(said: str, text: str, calls: tuple[AnswerCall, ...]) -> None:
    assert read(said) == (text, calls)
