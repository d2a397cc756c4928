"""What a text says that earlier texts did not."""

from __future__ import annotations

from zoea.text.new_words import count_new_words


def test_words_are_compared_without_case_and_counted_once() -> None:
    assert count_new_words(["Iron, IRON and gold."], ["and IRON"]) == 1


def test_no_text_says_nothing_new() -> None:
    assert count_new_words([], ["anything"]) == 0


def test_characters_of_scripts_without_spaces_count_one_by_one() -> None:
    assert count_new_words(["铁矿石已售出"], ["铁"]) == 5
    assert count_new_words(["ore铁"], []) == 2
