"""Tool calls are formatted on one short, harmless line."""

from __future__ import annotations

import json

import pytest

from zoea.text import call_text
from zoea.text.call_text import MOST_CHARS, format_arguments, format_call
from zoea.text.control_characters import one_line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"item": "ore", "n": 40}', 'sell(item="ore", n=40)'),
        ("{}", "sell()"),
        ("", "sell()"),
        ("[1, 2]", "sell([1, 2])"),
        ('{"item": "or', 'sell({"item": "or)'),
        ('{"item": "a\\u001b[2Jb\\nc"}', 'sell(item="a\\u001b[2Jb\\nc")'),
        ("[" * 60_000, f"sell({'[' * MOST_CHARS})"),
        ('{"deep": {"er": [1]}}', 'sell(deep={"er": [1]})'),
    ],
)
def test_a_call_is_formatted_like_source_code(arguments: str, said: str) -> None:
    assert format_call("sell", arguments) == said


def test_arguments_that_zoea_fills_in_are_omitted() -> None:
    assert format_call("sell", '{"session_id": "‹account›", "n": 1}', hidden="‹account›") == "sell(n=1)"
    assert format_call("scan", '{"session_id": "‹account›"}', hidden="‹account›") == "scan()"


def test_long_calls_are_cut_with_a_mark() -> None:
    assert format_arguments(json.dumps({"text": "x" * 99}), more=">") == f'text="{"x" * 59}>'
    assert format_arguments(json.dumps({f"k{n}": n for n in range(999)})).endswith("…")
    assert format_arguments("x" * 200_000) == "x" * MOST_CHARS + "…"


@pytest.mark.parametrize(
    "arguments", [{"text": "鉄" * 90_000}, {"鉄" * 90_000: 1}, {f"k{n}": "鉄" for n in range(5_000)}]
)
def test_little_of_a_vast_call_is_looked_at(arguments: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0

    def count(text: str) -> str:
        nonlocal looked_at
        looked_at += len(text)
        return one_line(text)

    monkeypatch.setattr(call_text, "one_line", count)
    assert len(format_arguments(json.dumps(arguments, ensure_ascii=False))) <= MOST_CHARS + 1
    assert looked_at < 5_000


def test_escape_sequences_in_a_name_are_removed() -> None:
    assert "\x1b" not in format_call("se\x1b[2Jll", "{}")
