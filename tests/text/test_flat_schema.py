"""Tool schemas are flattened for grammars."""

from __future__ import annotations

from typing import Any

from tests.case_tables import walk_cases
from zoea.text.flat_schema import MAX_ITEMS, MAX_REFERENCES, flat

POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


def test_references_are_filled_in_and_definitions_gone() -> None:
    schema = {"type": "object", "properties": {"at": {"$ref": "#/$defs/Point"}}, "$defs": {"Point": POINT}}
    assert flat(schema) == {"type": "object", "properties": {"at": POINT}}


def test_keys_beside_a_reference_stay() -> None:
    schema = {"properties": {"at": {"$ref": "#/definitions/P", "description": "Where."}}, "definitions": {"P": POINT}}
    assert flat(schema)["properties"]["at"] == {**POINT, "description": "Where."}


def test_a_single_all_of_is_undone() -> None:
    schema = {"properties": {"at": {"allOf": [{"$ref": "#/$defs/P"}], "default": None}}, "$defs": {"P": POINT}}
    assert flat(schema)["properties"]["at"] == POINT


def test_several_all_of_stay() -> None:
    schema = {"allOf": [{"minimum": 1}, {"maximum": 2}]}
    assert flat(schema) == schema


def test_a_property_may_have_any_name_even_one_that_schemas_use() -> None:
    properties = {name: {"type": "string"} for name in ("title", "default", "$ref", "allOf")}
    schema = {"type": "object", "properties": properties}
    assert flat(schema) == schema


@walk_cases(
    ("given", "most"),
    [
        ({}, MAX_ITEMS),
        ({"type": ["array", "null"]}, MAX_ITEMS),
        ({"maxItems": 3}, 3),
        ({"minItems": 50}, 50),
        ({"minItems": "x"}, MAX_ITEMS),
    ],
)
def test_lists_come_to_an_end(given: dict[str, Any], most: int) -> None:
    assert flat({"type": "array", "items": {"type": "string"}, **given})["maxItems"] == most


def test_a_recursive_schema_is_cut_off() -> None:
    made: Any = flat({"type": "object", "properties": {"next": {"$ref": "#"}}})
    depth = 0
    while made:
        made, depth = made["properties"]["next"], depth + 1
    assert depth == MAX_REFERENCES + 1


@walk_cases("reference", ["#/$defs/nowhere", "#/$defs/nowhere/at/all", "elsewhere.json"])
def test_a_broken_reference_allows_any_value(reference: str) -> None:
    assert flat({"properties": {"a": {"$ref": reference}}}) == {"properties": {"a": {}}}


def test_escaped_names_are_found() -> None:
    assert flat({"$ref": "#/$defs/a~1b~0c", "$defs": {"a/b~c": POINT}}) == POINT


def test_a_schema_with_a_reference_at_its_root_is_filled_in() -> None:
    assert flat({"$ref": "#/$defs/P", "$defs": {"P": POINT}}) == POINT


def test_a_schema_that_allows_anything_becomes_an_object() -> None:
    schema = {"properties": {"a": True, "b": {"type": "array", "items": True, "maxItems": 2}}, "anyOf": [True]}
    anything: dict[str, Any] = {"a": {}, "b": {"type": "array", "items": {}, "maxItems": 2}}
    assert flat(schema) == {"properties": anything, "anyOf": [{}]}
    assert flat({"additionalProperties": True, "uniqueItems": True}) == {
        "additionalProperties": True,
        "uniqueItems": True,
    }


def test_a_plain_schema_stays_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1, "x", None]}, "b": {}}, "required": ["a"]}
    assert flat(schema) == schema
