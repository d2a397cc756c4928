"""A tool is one line for a model. The error of a call shows all of it with an example."""

from __future__ import annotations

from typing import Any

from tests.case_tables import walk_cases
from zoea.text.tool_signature import describe_call, example_arguments, fits, write_signature

TEXT: dict[str, Any] = {"type": "string"}
LOG = {
    "type": "object",
    "properties": {
        "repo_path": {"type": "string", "title": "Repo Path"},
        "max_count": {"type": "integer", "default": 10},
        "start": {"anyOf": [TEXT, {"type": "null"}], "default": None},
    },
    "required": ["repo_path"],
}


def _of(schema: dict[str, Any], *, required: bool = True) -> str:
    whole = {"type": "object", "properties": {"a": schema}, "required": ["a"] if required else []}
    return write_signature("t", "", whole)[2:-1]


def test_a_line_holds_name_arguments_and_the_first_sentence() -> None:
    line = write_signature("git_log", "Shows the commit logs. Newest first.", LOG)
    assert line == "git_log(repo_path, max_count=10, start?): Shows the commit logs."
    assert write_signature("rest", "", {}) == "rest()"


@walk_cases(
    ("schema", "required", "shown"),
    [
        (TEXT, True, "a"),
        (TEXT, False, "a?"),
        ({"type": "number"}, True, "a: number"),
        ({"type": "integer", "default": 3}, False, "a=3"),
        ({"type": "boolean"}, False, "a?: true|false"),
        ({"type": "boolean", "default": False}, False, "a=false"),
        ({"type": "string", "default": "main"}, False, 'a="main"'),
        ({"type": "string", "default": "x" * 40}, False, "a?"),
        ({"enum": ["up", "down"]}, True, 'a: "up"|"down"'),
        ({"enum": ["up", "down"], "default": "up"}, False, 'a: "up"|"down" = "up"'),
        ({"enum": list("abcdef")}, True, "a"),
        ({"const": "x"}, True, 'a: "x"'),
        ({"type": "array", "items": TEXT}, True, "a: list"),
        ({"type": "array", "items": {"type": "integer"}}, True, "a: list of number"),
        ({"type": "object", "properties": {"x": {}, "y": {}}}, True, "a: {x, y}"),
        ({"type": "object"}, True, "a: object"),
        ({"type": ["null", "number"]}, False, "a?: number"),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, False, "a?: number"),
        ({}, True, "a"),
        ("no schema", True, "a"),
    ],
)
def test_types_stand_where_a_text_would_be_wrong(schema: Any, required: bool, shown: str) -> None:
    assert _of(schema, required=required) == shown


def test_required_arguments_come_first_and_all_of_them_are_shown() -> None:
    names = [f"o{number}" for number in range(10)]
    many = {"properties": {**dict.fromkeys(names, TEXT), "last": TEXT}, "required": ["last"]}
    assert write_signature("t", "", many) == "t(last, o0?, o1?, o2?, o3?, o4?, o5?, o6?, …)"
    every = {"properties": dict.fromkeys(names, TEXT), "required": names}
    assert "…" not in write_signature("t", "", every)
    assert "o9?" in write_signature("t", "", many, is_whole=True)


def test_the_error_of_a_call_shows_all_values_and_an_example() -> None:
    schema = {
        "properties": {"how": {"enum": list("abcdef")}, "where": {"$ref": "#/$defs/P"}},
        "required": ["how", "where"],
        "$defs": {"P": {"type": "object", "properties": {"x": {"type": "number", "minimum": 5}}, "required": ["x"]}},
    }
    assert describe_call("go", schema) == (
        'go(how: "a"|"b"|"c"|"d"|"e"|"f", where: {x}), for example {"how": "a", "where": {"x": 5}}'
    )


@walk_cases(
    ("name", "schema", "value"),
    [
        ("city", TEXT, "Oslo"),
        ("source_timezone", TEXT, "Europe/Oslo"),
        ("startDate", TEXT, "2026-05-04"),
        ("repo_path", TEXT, "."),
        ("file_path", TEXT, "notes.txt"),
        ("sector", TEXT, "oak"),
        ("x", {"type": "string", "format": "date-time"}, "2026-05-04T09:30:00Z"),
        ("x", {"type": "string", "description": "A zone, e.g. 'Asia/Tokyo'."}, "Asia/Tokyo"),
        ("x", {"type": "string", "examples": ["r1", "r2"]}, "r1"),
        ("x", {"type": "string", "default": "dev"}, "dev"),
        ("x", {"enum": ["low", "high"]}, "low"),
        ("x", {"type": "integer", "minimum": 7}, 7),
        ("x", {"type": "integer", "maximum": 2}, 2),
        ("x", {"type": "number", "default": 0.5}, 0.5),
        ("x", {"type": "boolean"}, True),
        ("cities", {"type": "array", "items": TEXT}, ["oak"]),
        ("paths", {"type": "array", "items": TEXT}, ["notes.txt"]),
        ("at", {"type": "object", "properties": {"city": TEXT, "n": {}}, "required": ["city"]}, {"city": "Oslo"}),
    ],
)
def test_an_example_has_real_values(name: str, schema: dict[str, Any], value: Any) -> None:
    whole = {"type": "object", "properties": {name: schema, "rest": TEXT}, "required": [name]}
    assert example_arguments(whole) == {name: value}
    assert fits(example_arguments(whole), whole)


def test_the_other_variant_tells_calls_apart() -> None:
    whole = {"properties": {"city": TEXT, "how": {"enum": ["a", "b"]}}, "required": ["city", "how"]}
    assert example_arguments(whole, 1) == {"city": "Lima", "how": "b"}


@walk_cases(
    ("arguments", "is_right"),
    [
        ({"repo_path": "."}, True),
        ({"repo_path": ".", "max_count": 3}, True),
        ({"repo_path": ".", "start": None}, True),
        ({}, False),
        ({"repo_path": ".", "count": 3}, False),
        ({"repo_path": 7}, False),
        ({"repo_path": {"type": "string"}}, False),
        ({"repo_path": ".", "max_count": True}, False),
    ],
)
def test_wrong_arguments_are_told_from_right_ones(arguments: dict[str, Any], is_right: bool) -> None:
    assert fits(arguments, LOG) is is_right
