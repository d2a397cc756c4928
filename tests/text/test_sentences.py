"""Counts with their nouns."""

from __future__ import annotations

from tests.case_tables import walk_cases
from zoea.text.sentences import count_of


@walk_cases(
    ("number", "noun", "text"),
    [
        (1, "request", "1 request"),
        (0, "request", "0 requests"),
        (1_200, "tool call", "1,200 tool calls"),
        (1, "memory", "1 memory"),
        (2, "memory", "2 memories"),
        (3, "day", "3 days"),
        (1, "mysis", "1 mysis"),
        (5, "mysis", "5 myses"),
    ],
)
def test_a_count_is_singular_for_one_only(number: int, noun: str, text: str) -> None:
    assert count_of(number, noun) == text
