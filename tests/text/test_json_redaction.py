"""Redacted JSON stays valid JSON."""

from __future__ import annotations

import json

from tests.case_tables import walk_cases
from zoea.text.redact import redact_all, redact_secrets
from zoea.text.redact.json_redaction import redact_json, redact_json_text

KEY = "sk-ant-abc123DEF456ghi789"


@walk_cases(
    ("given", "expected"),
    [
        ({"password": "hunter2"}, {"password": "[REDACTED_PASSWORD]"}),
        ({"password": 123456}, {"password": "[REDACTED_PASSWORD]"}),
        ({"password": True, "n": 5, "x": None}, {"password": True, "n": 5, "x": None}),
        ({"password": "none"}, {"password": "none"}),
        ({"deep": [{"note": f"use {KEY} now"}]}, {"deep": [{"note": "use [REDACTED_API_KEY] now"}]}),
        ({"mail": "a@b.example", "at": 4111111111111111}, {"mail": "[REDACTED_EMAIL]", "at": 4111111111111111}),
        ([1, "plain"], [1, "plain"]),
    ],
)
def test_strings_are_redacted_by_content_and_by_key(given: object, expected: object) -> None:
    assert redact_json(given, redact_all) == expected


def test_text_without_secrets_is_unchanged() -> None:
    assert redact_json_text('{ "a":1 }', redact_secrets) == '{ "a":1 }'
    assert json.loads(redact_json_text('{"password":123456, "a": "b"}', redact_secrets)) == {
        "password": "[REDACTED_PASSWORD]",
        "a": "b",
    }
    assert redact_json_text(f"no json {KEY}", redact_secrets) == "no json [REDACTED_API_KEY]"
    assert redact_json_text(f'{"[" * 5000}"{KEY}"', redact_secrets).endswith('"[REDACTED_API_KEY]"')
