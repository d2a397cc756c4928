"""Text is cleaned of characters that SQLite cannot hold or index."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from zoea.text import clean, estimate

ANY_CHARACTER = st.characters(codec=None)
ANY_TEXT = st.text(ANY_CHARACTER | st.sampled_from("\0\ud83d\ude00\udfff\ud800\ufffdé"))


def test_a_nul_becomes_its_symbol() -> None:
    assert clean("a\0b\0") == "a␀b␀"


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    assert clean("x\ud83dy") == "x\ufffdy"
    assert clean("\ude00\0\ud83d") == "\ufffd␀\ufffd"


def test_a_surrogate_pair_becomes_its_character() -> None:
    assert clean("\ud83d" + "\ude00") == "😀"


def test_a_clean_text_is_returned_as_the_same_object() -> None:
    for text in ("", "plain", "naïve 😀 \ufffd ␀ \ufeff \x1b[0m\r\n"):
        assert clean(text) is text


@given(ANY_TEXT)
def test_only_nul_and_surrogates_are_touched(text: str) -> None:
    def pair(match: re.Match[str]) -> str:
        high, low = match.group()[0], match.group()[1]
        return chr(0x10000 + ((ord(high) - 0xD800) << 10) + (ord(low) - 0xDC00))

    model = re.sub("[\ud800-\udbff][\udc00-\udfff]", pair, text)
    model = re.sub("[\ud800-\udfff]", "\ufffd", model).replace("\0", "␀")
    assert clean(text) == model


@given(ANY_TEXT)
def test_cleaning_is_idempotent_and_encodable(text: str) -> None:
    once = clean(text)
    assert clean(once) is once
    assert once.encode().decode() == once


def test_tokens_are_a_quarter_of_the_characters_rounded_up() -> None:
    assert [estimate.tokens("x" * n) for n in (0, 1, 4, 5, 8, 41_230)] == [0, 1, 1, 2, 2, 10_308]
