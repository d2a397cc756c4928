"""Sentences made of fragments. Pure."""

from __future__ import annotations


def begin_sentence(text: str, name: str = "") -> str:
    """Return the text with a capital first letter; a text that begins with `name` stays as it is."""
    if name and text.startswith(name):
        return text
    return text[:1].upper() + text[1:]


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun: `1 request`, `2 requests`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
