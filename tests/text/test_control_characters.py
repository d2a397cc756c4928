"""Text cannot control the terminal that shows it."""

from __future__ import annotations

import unicodedata
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoea.text import control_characters


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[1;1Hgone", "gone"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
        ("\x9b31mC1\x9d0;t\x9cx", "C1x"),
        ("\x1bPq#0~\x1b\\sixel", "sixel"),
        ("\x1b(Bset \x1b7save \x1bcreset", "set save reset"),
        ("a\x00b\x07c\x08d\x7fe\x85", "abcde"),
        ("50 %\rover", "50 %\nover"),
        ("one\r\ntwo\u2028three", "one\ntwo\nthree"),
        ("safe\u202egnp.exe", "safegnp.exe"),
        ("\x1b[31", ""),
        ("end \x1b", "end "),
    ],
)
def test_escape_sequences_and_controls_are_removed(text: str, shown: str) -> None:
    assert control_characters.strip(text) == shown


def test_a_harmless_text_is_returned_as_the_same_object() -> None:
    text = "tab\tnewline\n العربية 😀 [31m"
    assert control_characters.strip(text) is text


@given(st.text(st.characters(codec=None) | st.sampled_from("\x1b\x9b\x9d\r\n\t[]0;m\x07\\")))
def test_no_control_character_is_left(text: str) -> None:
    shown = control_characters.strip(text)
    assert not [c for c in shown if unicodedata.category(c) == "Cc" and c not in "\n\t"]
    assert control_characters.strip(shown) is shown


@pytest.mark.parametrize("unit", ["\x1b[", "\x1b]", "\x1b", "\x1b[0", "\x9d1", "\x1b]0;aaaa", "\r"])
def test_hostile_repetition_costs_time_in_proportion_to_its_length(unit: str) -> None:
    begun = process_time()
    control_characters.strip(unit * (1_000_000 // len(unit)))
    assert process_time() - begun < 3.0


class TestMarks:
    def test_marks_piled_up_on_a_character_are_cut(self) -> None:
        assert (
            control_characters.strip("a" + "\u0301" * 5_000 + "b")
            == "a" + "\u0301" * control_characters.MAX_MARKS + "b"
        )
        mixed = "".join(mark * 100 for mark in ("\u0301", "\u0489", "\u200d", "\ufe0f", "\u1161", "\U0001e94a"))
        assert control_characters.strip("a" + mixed) == "a" + "\u0301" * control_characters.MAX_MARKS

    def test_marks_that_a_removed_character_kept_apart_are_cut(self) -> None:
        once = control_characters.strip("a" + ("\u0301" * 5 + "\x07") * 50)
        assert once == "a" + "\u0301" * control_characters.MAX_MARKS
        assert control_characters.strip(once) is once

    @pytest.mark.parametrize("text", ["e\u0301", "ཧྐྵྨླྺྼྻྂ", "กำ้ลั๊ง", "👨‍👩‍👧‍👦🏳️‍🌈", "हिन्दी", "שָׁלוֹם", "각", "ﷺ", "Z͑ͫ̓ͪ̂ͫ"])
    def test_writing_of_the_world_stays(self, text: str) -> None:
        assert control_characters.strip(text) is text
