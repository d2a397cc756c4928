"""List the characters that a screen does not show. They come from the Unicode tables, not from the tested code."""

from __future__ import annotations

import unicodedata

_VISIBLE_FORMATS = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
_FILLERS = (
    *"\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U0001d159",
    *map(chr, range(0xFE00, 0xFE10)),
    *map(chr, range(0xE0000, 0xE1000)),
)
"""Default-ignorable characters of other categories than those of control and format characters, and blanks."""
HIDDEN = frozenset(
    {
        char
        for char in map(chr, range(0x110000))
        if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs") and char not in _VISIBLE_FORMATS + "\n\t"
    }.union(_FILLERS)
)
TERMINAL = frozenset(char for char in HIDDEN if unicodedata.category(char) in ("Cc", "Zl", "Zp", "Cs")) | set(
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
)
"""Those that move a cursor, end a line or turn text around: they reach no terminal, not even within prose."""


def is_hidden(text: str) -> bool:
    """Return whether any character of a text is hidden."""
    return not HIDDEN.isdisjoint(text)
