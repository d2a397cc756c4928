"""Sentences made of fragments. Pure."""

from __future__ import annotations


def begin_sentence(text: str, name: str = "") -> str:
    """Return the text with a capital first letter. A text that begins with `name` stays as it is."""
    if name and text.startswith(name):
        return text
    return text[:1].upper() + text[1:]


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun: `1 request`, `2 requests`, `2 memories`, `2 myses`."""
    return f"{number:,} {noun if number == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    if noun.endswith("sis"):
        return f"{noun[:-3]}ses"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("ch") else f"{noun}s"
