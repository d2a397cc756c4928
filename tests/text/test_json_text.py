"""JSON that anyone may have written."""

from __future__ import annotations

from typing import Any

from tests.case_tables import walk_cases
from zoea.text.json_text import parse_json, parse_object

DEEP = "[" * 100_000


@walk_cases(
    ("text", "value"),
    [('{"a": 1}', {"a": 1}), (b"[1]", [1]), ("null", None), ("", "no"), ("{", "no"), (b"\xff", "no"), (DEEP, "no")],
)
def test_a_text_that_is_no_json_gives_the_default(text: str | bytes, value: Any) -> None:
    assert parse_json(text, "no") == value


@walk_cases(("text", "value"), [('{"a": 1}', {"a": 1}), ("[1]", None), ("1", None), ("", None), (DEEP, None)])
def test_only_an_object_is_one(text: str, value: dict[str, Any] | None) -> None:
    assert parse_object(text) == value
