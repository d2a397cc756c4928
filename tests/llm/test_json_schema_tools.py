"""Tools for models that cannot call any: one object per answer, valid by its schema."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from tests.case_tables import walk_cases
from tests.llm.sample_requests import SCAN, assistant, call, request, result, system, user
from zoea.llm.messages.json_schema_tools import (
    MAX_NEXT,
    MAX_STRING,
    answer_schema,
    as_text,
    examples,
    read,
    read_unconstrained,
    schema,
)
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.providers.openai_request import body_of
from zoea.model.enums import CALL_TOOL, FIND_TOOL, SEND_TOOL, Role, ToolMode
from zoea.model.request import AnswerCall, ToolSpec

LIST = "the arguments must be one JSON object, not a list"
ROLES = {
    "type": "object",
    "properties": {"to": {"type": "string", "enum": ["a"]}, "many": {"anyOf": [{"type": ["string", "null"]}]}},
}


def test_the_schema_allows_each_call_or_an_answer() -> None:
    built = schema((SCAN, ToolSpec("hail", "", ROLES), ToolSpec("rest", "", {})))
    scan, hail, rest, text = built["anyOf"]
    assert scan["properties"]["name"] == {"const": "scan"}
    assert scan["properties"]["arguments"]["properties"]["sector"] == {"type": "string", "maxLength": MAX_STRING}
    assert hail["properties"]["arguments"]["properties"]["to"] == {"type": "string", "enum": ["a"]}
    assert hail["properties"]["arguments"]["properties"]["many"]["anyOf"][0]["maxLength"] == MAX_STRING
    assert rest["properties"]["arguments"] == {"type": "object"}
    assert scan["required"] == ["next", "name", "arguments"]
    assert text["required"] == ["next", "answer"]
    assert scan["properties"]["next"] == {"type": "string", "maxLength": MAX_NEXT}
    assert all(option["additionalProperties"] is False for option in built["anyOf"])


def test_the_conversation_is_shown_in_the_same_form() -> None:
    said = [system(), user(), assistant("", call()), result("ore"), result("lost", "c2", is_error=True)]
    asked = request(*said, assistant("done"), user(), tools=(SCAN,))
    config = ProviderConfig("openai", tool_mode=ToolMode.JSON_SCHEMA)
    sent = body_of(asked, config, provider="reefnet")
    told, _, step, results, done, _ = sent["messages"]
    assert "- scan: Look around" in told["content"]
    assert told["content"].startswith("You are a mysis.")
    assert json.loads(step["content"]) == {"next": "use scan for a", "name": "scan", "arguments": {"sector": "a"}}
    assert results["content"] == "Result of scan:\nore\n\nResult of scan:\nError: lost"
    assert json.loads(done["content"]) == {"next": "answer", "answer": "done"}
    assert {one["role"] for one in sent["messages"]} == {"system", "user", "assistant"}
    assert "tools" not in sent


@walk_cases(
    ("said", "text", "calls"),
    [
        ('{"name": "scan", "arguments": {"sector": "b"}}', "", (AnswerCall("scan", '{"sector":"b"}'),)),
        ('{"next": "use scan", "name": "scan", "arguments": {}}', "", (AnswerCall("scan", "{}"),)),
        ('{"next": "answer", "answer": "done"}', "done", ()),
        ('{"name": "scan"}', "", (AnswerCall("scan", "{}"),)),
        ('{"name": "scan", "arguments": [1]}', "", (AnswerCall("scan", "[1]", broken=LIST),)),
        ('{"answer": "done"}', "done", ()),
        ('{"other": 1}', '{"other": 1}', ()),
        ("just text", "just text", ()),
    ],
)  # fmt: skip
def test_an_answer_is_a_call_or_a_text(said: str, text: str, calls: tuple[AnswerCall, ...]) -> None:
    assert read(said) == (text, calls)


def test_after_a_warning_only_a_text_is_allowed_and_the_prompt_stays_the_same() -> None:
    config = ProviderConfig("openai", tool_mode=ToolMode.JSON_SCHEMA)
    asked = request(system(), user(), assistant("", call()), result("ore"), tools=(SCAN,))
    free, bound = (body_of(one, config, provider="reefnet") for one in (asked, replace(asked, is_warned=True)))
    assert free["messages"] == bound["messages"]
    assert len(free["response_format"]["json_schema"]["schema"]["anyOf"]) == 2
    (only,) = bound["response_format"]["json_schema"]["schema"]["anyOf"]
    assert only["required"] == ["next", "answer"]


POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
GO = ToolSpec("go", "Go.", {"type": "object", "properties": {"at": {"$ref": "#/$defs/P"}}, "$defs": {"P": POINT}})


def test_a_schema_inside_another_keeps_no_references() -> None:
    assert schema((GO,))["anyOf"][0]["properties"]["arguments"] == {"type": "object", "properties": {"at": POINT}}
    told, _ = as_text("", (), request(tools=(GO,)))
    assert told.endswith(f"- go: Go. Arguments: {json.dumps({'at': POINT})}")


@walk_cases(
    ("said", "text"),
    [
        ('{"answer": "All is w', "All is w"),
        ('{"answer": "All is well."', "All is well."),
        ('{ "answer" : "one\\ntwo \\u00e4 \\"three\\" \\', 'one\ntwo ä "three" '),
        ('{"answer": "cut in \\u00', "cut in "),
        ('{"answer": "a \\\\u12', "a \\u12"),
        ('{"next": "say \\"so\\"", "answer": "All is', "All is"),
        ('{"next": "say so", "ans', ""),
        ('{"answer": "', ""),
        ('{"answer"', ""),
        ('{"na', ""),
        ("{", ""),
        ("plain words", "plain words"),
    ],
)
def test_a_cut_text_keeps_its_beginning(said: str, text: str) -> None:
    assert read(said, is_cut=True) == (text, ())


@walk_cases(
    ("said", "arguments"),
    [
        ('{"name": "scan", "arguments": {"amount": 3', '{"amount": 3'),
        ('{"name": "scan", "arguments": {"to": "the be', '{"to": "the be'),
        ('{"next": "look", "name": "scan", "arguments": {"amount": 3', '{"amount": 3'),
        ('{"name": "scan", "arguments":', "{}"),
        ('{"name": "scan", "argu', "{}"),
        ('{"name": "scan"', "{}"),
    ],
)
def test_a_cut_call_is_broken_and_not_repaired(said: str, arguments: str) -> None:
    text, (cut,) = read(said, is_cut=True)
    assert (text, cut.name, cut.arguments) == ("", "scan", arguments)
    assert "the output limit was reached" in cut.broken


@walk_cases("said", ['{"name": "Bob"} is my name.', '{"answer": "he said "no""} he', '{"half'])
def test_text_that_was_not_cut_stays_unchanged(said: str) -> None:
    assert read(said) == (said, ())


def test_a_call_that_ends_in_mid_string_is_broken_for_any_finish_reason() -> None:
    _, (cut,) = read('{"name": "scan", "arguments": {"to": "the be')
    assert (cut.arguments, bool(cut.broken)) == ('{"to": "the be', True)


def test_an_object_that_was_complete_at_the_limit_is_taken() -> None:
    assert read('{"name": "scan"}', is_cut=True) == ("", (AnswerCall("scan", "{}"),))


CALLED = (AnswerCall("scan", '{"sector":"b"}'),)
HAIL = ToolSpec(
    "hail",
    "",
    {
        "type": "object",
        "properties": {
            "to": {"type": ["string", "null"]},
            "how": {"enum": ["loud", "low"]},
            "often": {"type": "integer", "minimum": 2},
            "far": {"type": "number"},
            "now": {"type": "boolean"},
            "all": {"type": "array"},
            "at": {"type": "object", "properties": {"x": {"const": 3}}, "required": ["x"]},
            "or": {"anyOf": [{"type": "null"}, {"type": "string"}]},
            "any": {},
            "unsaid": {"type": "string"},
        },
        "required": ["to", "how", "often", "far", "now", "all", "at", "or", "any", "lost"],
    },
)


def _steps(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("You: ")) for line in lines if line.startswith("You: ")]


def test_examples_show_calls_with_real_values_that_their_schemas_allow() -> None:
    lines = examples((replace(HAIL, upstream="reef"),))
    greeting, called, answered = _steps(lines)
    assert greeting["answer"] == "Good morning."
    assert called["arguments"] == {
        "to": "mara",
        "how": "loud",
        "often": 3,
        "far": 3,
        "now": True,
        "all": ["oak"],
        "at": {"x": 3},
        "or": "oak",
        "any": "oak",
        "lost": "oak",
    }
    assert lines[-3:-1] == ["User: Result of hail:", "It is 17 of 24."]
    assert answered == {"next": "all results are there", "answer": "It is 17 of 24."}
    assert "<" not in "".join(lines)
    assert "nothing is left" not in "".join(lines)


def test_a_tool_with_one_text_is_shown_twice_before_the_answer_to_both_results() -> None:
    scan = replace(SCAN, upstream="reef")
    ask = replace(SCAN, name="zoea_ask")
    lines = examples((ask, scan, HAIL))
    assert "User: Use scan for oak and for pine, then tell me both." in lines
    first, second, told = _steps(lines)[-3:]
    assert (first["arguments"], second["arguments"]) == ({"sector": "oak"}, {"sector": "pine"})
    assert (lines[-5], lines[-2]) == ("In oak it is 17.", "In pine it is 24.")
    assert told == {"next": "all results are there", "answer": "In oak it is 17. In pine it is 24."}


def test_with_zoea_s_own_tools_alone_plain_answers_are_shown() -> None:
    title, *shown = examples((SCAN, HAIL))
    assert title == "Examples:"
    assert [json.loads(line.removeprefix("You: ")).keys() for line in shown[1::2]] == [{"next", "answer"}] * 2
    assert not any(tool.name in line for tool in (SCAN, HAIL) for line in shown)


@walk_cases("to", ["mysis", "to"])
@walk_cases("others", [(), (replace(SCAN, upstream="reef"),)])
def test_a_message_to_another_mysis_is_shown_where_it_can_be_sent(to: str, others: tuple[ToolSpec, ...]) -> None:
    text = {"type": "string"}
    schema = {"type": "object", "properties": {to: text, "text": text}, "required": [to, "text"]}
    lines = examples((ToolSpec(SEND_TOOL, "", schema), *others))
    at = lines.index("User: Tell mara that the list is ready.")
    assert _steps(lines[at + 1 :])[0]["arguments"] == {to: "mara", "text": "The list is ready."}
    assert _steps(lines)[0]["answer"]


def test_where_the_tools_of_upstreams_are_found_by_need_calls_are_shown() -> None:
    find, use = (ToolSpec(name, "", {}) for name in (FIND_TOOL, CALL_TOOL))
    assert [line for line in examples((SCAN, find, use)) if line.startswith("User: Use")] == [
        "User: Use scan with sector oak.",
        f"User: Use {FIND_TOOL}.",
        f"User: Use {CALL_TOOL}.",
    ]


def test_a_call_that_a_person_refused_is_only_named() -> None:
    refused = assistant("", replace(call(), is_denied=True), call("c2"))
    _, (_, told, _) = as_text("", [user(), refused, result("denied: no", is_error=True)], request(tools=(SCAN,)))
    first, second = told.content.split("\n")
    assert first == "[a call of scan, which was refused]"
    assert json.loads(second)["name"] == "scan"


def test_with_signatures_each_tool_is_one_line_and_the_grammar_stays() -> None:
    config = ProviderConfig("openai", tool_mode=ToolMode.JSON_SCHEMA)
    asked = request(user(), tools=(SCAN, GO))
    whole, signed = (body_of(one, config, provider="p") for one in (asked, replace(asked, as_signatures=True)))
    assert signed["response_format"] == whole["response_format"]
    assert "- scan(sector): Look around" in signed["messages"][0]["content"]
    assert "- go(at?: {x}): Go." in signed["messages"][0]["content"]
    assert '"type"' not in signed["messages"][0]["content"]


def test_the_recipients_of_a_message_are_an_enum_of_the_grammar() -> None:
    text = {"type": "string"}
    schema_of_send = {"type": "object", "properties": {"mysis": text, "text": text}, "required": ["mysis", "text"]}
    send = ToolSpec(SEND_TOOL, "", schema_of_send)
    asked = replace(request(user(), tools=(send, SCAN)), recipients=("bob", "cleo"))
    sending, scanning, _ = answer_schema(asked)["anyOf"]
    assert sending["properties"]["arguments"]["properties"]["mysis"] == {"enum": ["bob", "cleo"]}
    assert sending["properties"]["arguments"]["properties"]["text"]["maxLength"] == MAX_STRING
    assert "enum" not in json.dumps(scanning)
    for other in (replace(asked, recipients=()), replace(asked, recipients=tuple(map(str, range(65))))):
        assert "enum" not in json.dumps(answer_schema(other))
    theirs = replace(asked, tools=(replace(send, upstream="mail"),))
    assert "enum" not in json.dumps(answer_schema(theirs))


@walk_cases(
    ("inner", "bounded"),
    [
        ({"type": "string", "format": "uri"}, True),
        ({"type": "string", "format": "date"}, False),
        ({"type": "string", "enum": ["a"]}, False),
        ({"type": ["string", "null"]}, True),
    ],
)
def test_every_free_text_of_a_grammar_is_bounded(inner: dict[str, Any], bounded: bool) -> None:
    built = schema((ToolSpec("t", "", {"type": "object", "properties": {"a": inner}}),))
    assert ("maxLength" in built["anyOf"][0]["properties"]["arguments"]["properties"]["a"]) is bounded


def test_a_step_names_an_only_short_text_so_that_calls_are_told_apart() -> None:
    said = [
        user(),
        assistant("", call()),
        result("ore"),
        assistant("", call("c2", arguments=json.dumps({"a": "x" * 60}))),
    ]
    _, messages = as_text("", [*said, result("ore", "c2")], request(tools=(SCAN,)))
    assert [json.loads(message.content)["next"] for message in messages if message.role is Role.ASSISTANT] == [
        "use scan for a",
        "use scan",
    ]


@walk_cases(
    ("said", "text", "calls"),
    [
        ('{"next": "use scan", "name": "scan", "arguments": {"sector": "b"}}\nUser: Result of scan:\nore', "", CALLED),
        ('```json\n{"name": "scan", "arguments": {"sector": "b"}}\n```', "", CALLED),
        ('{"next": "answer", "answer": "done"} I hope this helps.', "done", ()),
        ('Such a call is {"name": "scan", "arguments": {}}.', 'Such a call is {"name": "scan", "arguments": {}}.', ()),
        ("[1, 2]", "[1, 2]", ()),
        ('{"next": "answer", "answer": "do', "do", ()),
        ("just text", "just text", ()),
    ],
)  # fmt: skip
def test_without_a_grammar_the_first_object_is_the_answer(said: str, text: str, calls: tuple[AnswerCall, ...]) -> None:
    assert read_unconstrained(said, is_cut=said.endswith("do")) == (text, calls)


def test_at_most_three_tools_are_shown_and_each_once() -> None:
    tools = [ToolSpec(name, "", {}, upstream="reef") for name in "abcdef"]
    shown = [[line[10] for line in examples(tools[:count]) if line.startswith("User: Use")] for count in (1, 2, 3, 6)]
    assert shown == [["a"], ["a", "b"], ["a", "b", "c"], ["a", "d", "f"]]


@walk_cases(("wanted", "there"), [(True, True), (False, False), (None, False)])
def test_examples_are_shown_if_configured(wanted: bool | None, there: bool) -> None:
    config = ProviderConfig("openai", tool_mode=ToolMode.JSON_SCHEMA, examples=wanted)
    sent = body_of(request(tools=(replace(SCAN, upstream="reef"),)), config, provider="reefnet")
    example = (
        "User: Use scan with sector oak.\n"
        'You: {"next": "use scan for oak", "name": "scan", "arguments": {"sector": "oak"}}'
    )
    assert (example in sent["messages"][0]["content"]) is there
