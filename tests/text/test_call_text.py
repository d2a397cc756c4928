"""Tool calls are formatted on one short, harmless line."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from tests.text.hidden_characters import is_hidden
from tests.text.test_control_characters import HOSTILE
from zoea.text import call_text
from zoea.text.call_text import MOST_CHARS, format_arguments, format_call, reveal_arguments
from zoea.text.control_characters import reveal_exactly, reveal_unambiguously

SHOWN_ESCAPE = re.compile(r"(\\+)u([0-9a-f]{4})")


@walk_cases(
    ("arguments", "said"),
    [
        ('{"item": "ore", "n": 40}', 'sell(item="ore", n=40)'),
        ("{}", "sell()"),
        ("", "sell()"),
        ("[1, 2]", "sell([1, 2])"),
        ('{"item": "or', 'sell({"item": "or)'),
        ('{"item": "a\\u001b[2Jb\\nc"}', 'sell(item="a\\u001b[2Jb\\nc")'),
        ("[" * 60_000, f"sell({'[' * MOST_CHARS}… (60,000 characters))"),
        ('{"cmd": "ls \\u009d; evil \\u009c"}', 'sell(cmd="ls \\u009d; evil \\u009c")'),
        ('{"cmd": "ls \x9d; evil \x9c"}', 'sell(cmd="ls \\u009d; evil \\u009c")'),
        ('{"cmd=\\"ls\\", x": 1}', 'sell("cmd=\\"ls\\", x"=1)'),
        ('{"a": "two  blanks\xa0and one"}', 'sell(a="two  blanks\\u00a0and one")'),
        ('{"deep": {"er": [1]}}', 'sell(deep={"er": [1]})'),
    ],
)
def test_a_call_is_formatted_like_source_code(arguments: str, said: str) -> None:
    assert format_call("sell", arguments) == said


def test_arguments_that_zoea_fills_in_are_omitted() -> None:
    assert format_call("sell", '{"session_id": "‹account›", "n": 1}', hidden="‹account›") == "sell(n=1)"
    assert format_call("scan", '{"session_id": "‹account›"}', hidden="‹account›") == "scan()"


def test_long_calls_are_cut_with_a_mark_and_their_length() -> None:
    assert format_arguments(json.dumps({"text": "x" * 99})) == f'text="{"x" * 59}… (101 characters)'
    assert format_arguments(json.dumps({f"k{n}": n for n in range(999)})).endswith("… (12,767 characters)")
    assert format_arguments("x" * 200_000) == "x" * MOST_CHARS + "… (200,000 characters)"


@pytest.mark.parametrize(
    "arguments", [{"text": "鉄" * 90_000}, {"鉄" * 90_000: 1}, {f"k{n}": "鉄" for n in range(5_000)}]
)
def test_little_of_a_vast_call_is_looked_at(arguments: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0

    def count(text: str) -> str:
        nonlocal looked_at
        looked_at += len(text)
        return reveal_exactly(text)

    monkeypatch.setattr(call_text, "reveal_exactly", count)
    assert len(format_arguments(json.dumps(arguments, ensure_ascii=False))) <= MOST_CHARS + len("… (90,007 characters)")
    assert 0 < looked_at < 5_000


@given(st.dictionaries(HOSTILE, st.recursive(HOSTILE | st.integers() | st.none(), st.lists)), st.booleans())
def test_what_is_shown_of_a_call_parses_to_what_is_sent(arguments: dict[str, object], is_escaped: bool) -> None:
    text = json.dumps(arguments, ensure_ascii=is_escaped)
    assert json.loads(reveal_arguments(text)) == arguments
    shown = format_arguments(text)
    assert not is_hidden(shown)
    if " characters)" not in shown:  # nothing of it is cut
        assert parse_shown(shown) == arguments


def parse_shown(shown: str) -> dict[str, object]:
    """Parse arguments as they are shown: a word or JSON text, an equals sign, JSON, and a comma before the next."""
    decoder, values, at = json.JSONDecoder(), {}, 0
    while at < len(shown):
        if shown[at] == '"':
            key, at = decoder.raw_decode(shown, at)
        else:
            key, at = shown[at : shown.index("=", at)], shown.index("=", at)
        assert shown[at] == "="
        values[key], at = decoder.raw_decode(shown, at + 1)
        assert shown[at : at + 2] in ("", ", ")
        at += 2
    return values


def test_escape_sequences_in_a_name_are_shown() -> None:
    assert format_call("se\x1b[2Jll", "{}") == "se\\u001b[2Jll()"


@given(st.text(st.sampled_from(["\\", "u", "0", "9", "d", "\x9d", "\u202e", "\u009f", "a"]), max_size=24))
def test_no_two_texts_look_the_same_where_a_person_decides(text: str) -> None:
    shown = reveal_unambiguously(text)
    assert not is_hidden(shown)
    assert read_shown(shown) == text


def read_shown(shown: str) -> str:
    """Read what is shown: before an escape, an even number of backslashes stands for half of them."""
    text, at = "", 0
    while match := SHOWN_ESCAPE.search(shown, at):
        slashes = len(match[1])
        text += shown[at : match.start()] + "\\" * (slashes // 2)
        text += chr(int(match[2], 16)) if slashes % 2 else f"u{match[2]}"
        at = match.end()
    return text + shown[at:]


def test_an_escape_that_someone_wrote_does_not_look_like_a_hidden_character() -> None:
    assert reveal_unambiguously("ls \x9d") == r"ls \u009d"
    assert reveal_unambiguously(r"ls \u009d") == r"ls \\u009d"
    assert reveal_unambiguously(r"C:\users and \n") == r"C:\users and \n"
