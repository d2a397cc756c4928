"""Shortened text is marked and never splits a character."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from zoea.text import shorten

NOTE = "zoea_read_memory(id=812) shows them"
CLUSTERS = st.sampled_from(["a", "b ", "e\u0301", "👩\u200d🚀", "🇫🇮", "👍🏽", "\r\n", "क्षि", "字", "x\u0308\u0323"])


def test_the_middle_is_replaced_by_a_note_with_its_length() -> None:
    text = "<" * 30_000 + ">" * 30_000
    short = shorten.middle(text, 200, NOTE)
    kept = short.count("<") + short.count(">")
    assert f"<\n[… {60_000 - kept:,} characters left out; {NOTE}]\n>" in short
    assert len(short) == 200


def test_the_line_counts_characters_without_a_note() -> None:
    assert "\n[… 41,226 characters left out]\n" in shorten.middle("x" * 41_258, 64)


def test_a_text_that_fits_is_the_same_object() -> None:
    text = "x" * 100
    assert shorten.middle(text, 100, NOTE) is text
    assert shorten.head(text, 100) is text


def test_only_the_head_is_kept_if_the_line_does_not_fit() -> None:
    assert shorten.middle("x" * 100, 10, NOTE) == "xxxxxxxxx…"


def test_a_head_ends_in_an_ellipsis() -> None:
    assert shorten.head("abcdef", 4) == "abc…"
    assert [shorten.head("abcdef", n) for n in (1, 0, -5)] == ["…", "", ""]


def test_displayed_characters_are_not_split() -> None:
    assert shorten.head("ae\u0301x", 3) == "a…"
    assert shorten.head("a👩\u200d🚀x", 4) == "a…"
    assert shorten.head("🇫🇮🇸🇪🇳🇴", 4) == "🇫🇮…"
    assert shorten.head("👍🏽👍🏽", 2) == "…"
    assert shorten.head("ab\r\ncd", 4) == "ab…"


def test_long_runs_of_combining_marks_are_cut() -> None:
    assert len(shorten.head("e" + "\u0301" * 500, 200)) == 200
    assert len(shorten.middle("e" + "\u0301" * 5000, 200)) <= 200


@given(st.lists(CLUSTERS, max_size=120).map("".join), st.integers(-2, 120), st.sampled_from(["", "see id=7"]))
def test_a_cut_has_at_most_the_given_length_and_keeps_both_ends(text: str, limit: int, note: str) -> None:
    short = shorten.middle(text, limit, note)
    assert len(short) <= max(limit, 0) or short == text
    if "\n[… " in short:
        head, _, rest = short.partition("\n[… ")
        tail = rest.partition("]\n")[2]
        assert text.startswith(head)
        assert text.endswith(tail)
        assert rest.startswith(f"{len(text) - len(head) - len(tail):,} characters left out")
        assert not tail or unicodedata.category(tail[0])[0] != "M"


@given(st.text(max_size=60), st.integers(0, 60))
def test_a_head_is_a_prefix_of_at_most_the_given_length(text: str, limit: int) -> None:
    short = shorten.head(text, limit)
    assert len(short) <= limit
    assert short == text or text.startswith(short.removesuffix("…"))
