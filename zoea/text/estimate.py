"""The size of a text in tokens, before any model has seen it (spec/planner.md, Selection)."""

from __future__ import annotations

CHARS_PER_TOKEN = 4


def tokens(text: str) -> int:
    """`ceil(characters / 4)`; 0 for the empty text."""
    return (len(text) + CHARS_PER_TOKEN - 1) // CHARS_PER_TOKEN
