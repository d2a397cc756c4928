"""The last answer of a turn is read as one JSON object. It is checked against the output schema of its role."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.context.topics.output_check import NO_OBJECT, check_output

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["approved"],
    "properties": {"approved": {"type": "boolean"}, "errors": {"type": "array", "items": {"type": "string"}}},
}
RIGHT = '{"approved": true}'


@walk_cases(
    "text",
    [
        RIGHT,
        f"  {RIGHT}\n",
        f"```json\n{RIGHT}\n```",
        f"```\n{RIGHT}\n```",
        f"Here is my verdict:\n\n```JSON\n{RIGHT}\n```\nThat is all.",
        f"I checked it. {RIGHT}",
        f'<think>Is {{this}} it? {{"approved": false}} No.</think>\n{RIGHT}',
        f"```json\n[1]\n```\n{RIGHT}",
    ],
)
def test_an_object_is_found_whole_in_a_code_block_and_between_sentences(text: str) -> None:
    check = check_output(text, SCHEMA)
    assert (json.loads(check.data), check.error) == ({"approved": True}, "")


@walk_cases(
    ("text", "said"),
    [
        ("", NO_OBJECT),
        ("All is well.", NO_OBJECT),
        ("[true]", NO_OBJECT),
        ('{"approved": tru}', "it is not valid JSON: "),
        ('{"approved": NaN}', "it is not valid JSON: NaN is no JSON number"),
        ('{"approved": tru, "errors": {"approved": true}}', "it is not valid JSON: "),
        ("{}", "'approved' is a required property"),
        ('{"approved": "yes"}', "approved: 'yes' is not of type 'boolean'"),
        ('{"approved": true, "errors": ["a", 2]}', "errors.1: 2 is not of type 'string'"),
    ],
)
def test_an_output_that_is_wrong_says_where_and_why(text: str, said: str) -> None:
    check = check_output(text, SCHEMA)
    assert check.data == ""
    assert check.error.startswith(said)


def test_a_long_error_is_cut() -> None:
    assert len(check_output(json.dumps({"approved": "x" * 9000}), SCHEMA).error) < 400


@given(st.text(alphabet='{}[]",:`ab1 \n', max_size=200))
def test_any_answer_has_an_output_or_an_error(text: str) -> None:
    check = check_output(text, {"type": "object"})
    assert bool(check.data) is not bool(check.error)
    assert not check.data or isinstance(json.loads(check.data), dict)


def test_an_output_that_is_nested_too_deeply_to_be_published_is_an_error() -> None:
    deep = '{"a":' * 101 + "1" + "}" * 101
    assert check_output(deep, {}).error == "it is nested more than 100 levels deep"
    assert check_output(f"Here it is: {deep}", {}).error == "it is nested more than 100 levels deep"
    assert check_output('{"a":' * 100 + "1" + "}" * 100, {}).error == ""


def test_an_answer_of_braces_is_read_in_bounded_time() -> None:
    assert check_output("{" * 200_000, SCHEMA).error


def test_a_name_that_cannot_be_stored_is_said_with_other_characters() -> None:
    check = check_output(r'{"\ud800\u0000": 1}', {"additionalProperties": {"type": "string"}})
    assert check.error == "\ufffd\u2400: 1 is not of type 'string'"
