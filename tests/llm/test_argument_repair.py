"""Broken arguments are repaired if only one reading exists, and explained otherwise."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.llm.messages.argument_repair import repair

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=6), JSON, max_size=4))
def test_a_valid_object_keeps_its_meaning_and_becomes_compact(value: dict[str, Any]) -> None:
    text, broken = repair(json.dumps(value, indent=2))
    assert (json.loads(text), broken) == (value, "")
    assert repair(text) == (text, "")


@walk_cases("nothing", ["", "  \n", "null"])
def test_no_arguments_are_an_empty_object(nothing: str) -> None:
    assert repair(nothing) == ("{}", "")


@walk_cases(
    ("wrote", "meant"),
    [
        ('{"a": 1,}', {"a": 1}),
        ("{'a': 'b'}", {"a": "b"}),
        ('{"a": True, "b": None}', {"a": True, "b": None}),
        ('```json\n{"a": 1,}\n```', {"a": 1}),
        ('{"a": 1', {"a": 1}),
        ('{"a": [1, 2', {"a": [1, 2]}),
        ('{a: "b"}', {"a": "b"}),
        ('{"a": "say \\"go\\"",}', {"a": 'say "go"'}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        # The shared case of control characters: MoonshotAI/kimi-cli#1378, aaif-goose/goose#2892,
        # mistralai/mistral-vibe#216, OpenHands/software-agent-sdk#2488.
        ('{"a": "first\nsecond"}', {"a": "first\nsecond"}),
        ('{"a": "x\ty\x01"}', {"a": "x\ty\x01"}),
        ('{"a": "C:\\Users\\me\\new.txt"}', {"a": "C:\\Users\\me\\new.txt"}),
        ('{"a": "C:\\Users\\\\me"}', {"a": "C:\\Users\\me"}),
        ('{"a": "x", "b": \\n[1, 2]\\n\\n}', {"a": "x", "b": [1, 2]}),
        ('{"a": "grep \\d+ \\\\d \\n end"}', {"a": "grep \\d+ \\d \n end"}),
        ('{"a": "say \\"go\\" \\(now\\)"}', {"a": 'say "go" \\(now\\)'}),
        ('{"a": "\\u12 and \\u00e4"}', {"a": "\\u12 and ä"}),
        ('{"a": "it\\\'s"}', {"a": "it\\'s"}),
        # `json_repair` drops the line end of a text.
        ('{"a": "x = 1\\n",}', {"a": "x = 1\n"}),
        ('{"a": "x = 1\n",}', {"a": "x = 1\n"}),
        ('{"a": "x = 1\\n\\n", "b": True}', {"a": "x = 1\n\n", "b": True}),
        ('{"a": "x = 1\\n", b: 1}', {"a": "x = 1\n", "b": 1}),
        ("{'a': 'x = 1\\n', 'b': \"it's\"}", {"a": "x = 1\n", "b": "it's"}),
        ('{"a": ["x\\n"', {"a": ["x\n"]}),
        ('{"a\\n": "True, {x: 1,}",}', {"a\n": "True, {x: 1,}"}),
    ],
)
def test_an_unambiguous_slip_is_repaired(wrote: str, meant: dict[str, Any]) -> None:
    text, broken = repair(wrote)
    assert (json.loads(text), broken) == (meant, "")


@walk_cases(
    "wrote", ['{"path": "/home/reef/no', "scan the belt", '{"sum": ', "{]", '{"a": "say "x"\\n"}', '{"a": 1, b}']
)
def test_ambiguous_arguments_stay_unchanged(wrote: str) -> None:
    text, broken = repair(wrote)
    assert text == wrote
    assert broken.startswith("the arguments are not valid JSON: ")


def test_the_reason_names_the_place_of_the_error() -> None:
    _, broken = repair('{"a": 1,\n "b": "unfinished')
    assert broken.endswith("at line 2, column 7")


@walk_cases(("wrote", "kind"), [("[1]", "a list"), ("3", "a number"), ("true", "a boolean"), ('"go"', "a string")])
def test_anything_but_an_object_is_named(wrote: str, kind: str) -> None:
    assert repair(wrote) == (wrote, f"the arguments must be one JSON object, not {kind}")


def test_a_constant_that_json_does_not_know_is_broken() -> None:
    text, broken = repair('{"a": NaN}')
    assert text == '{"a": NaN}'
    assert "NaN is no JSON value" in broken


def test_arguments_cut_by_the_output_limit_are_not_repaired() -> None:
    text, broken = repair('{"steps": [1, 2', is_cut=True)
    assert text == '{"steps": [1, 2'
    assert broken.endswith("(the output limit was reached)")
    assert repair('{"steps": [1]}', is_cut=True) == ('{"steps":[1]}', "")


def test_arguments_too_long_to_repair_are_explained() -> None:
    text = '{"a": "' + "x" * 200_001 + '",}'
    assert repair(text)[0] == text


@walk_cases("begin", ["{", '{"a":', '{"a":"'])
@walk_cases("unit", ["{", "{'", '\\"', 'e\\"', '"//', '"#', "'a':", '"a":', ",a", '"x" "y"', ", "])
@walk_cases("size", [1_900, 9_000, 60_000 if os.environ.get("ZOEA_SOAK") else 30_000])
def test_arguments_of_a_model_that_runs_away_take_no_time(begin: str, unit: str, size: int) -> None:
    text, started = begin + unit * (size // len(unit)) + "]}", time.process_time()
    assert repair(text)[1] or size == 1_900
    assert time.process_time() - started < 0.5  # seconds of CPU, which the event loop waits for


def test_a_slip_at_the_end_of_long_arguments_is_repaired() -> None:
    content = "x = 1\n" * 20_000 + "y"
    text, broken = repair(json.dumps({"path": "a.py", "content": content})[:-1] + ",}")
    assert (json.loads(text), broken) == ({"path": "a.py", "content": content}, "")
