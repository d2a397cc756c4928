"""Estimate the tokens of a text without a tokenizer."""

from __future__ import annotations

CHARS_PER_TOKEN = 4


def tokens(text: str) -> int:
    """Return `ceil(characters / 4)`; 0 for the empty text."""
    return (len(text) + CHARS_PER_TOKEN - 1) // CHARS_PER_TOKEN
