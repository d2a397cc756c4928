"""Text that would break a screen that trusted it."""

from __future__ import annotations

HOSTILE = (
    "[/] [bold]list[int] [link=file:///etc/passwd]x[/link] \\[",
    "\x1b[2J\x1b[31mred\x1b]0;title\x07 bell\x07 \x9b5A",
    "漢字かな交じり文 한글 ｆｕｌｌ",
    "\u202eright to left\u202c שלום مرحبا",
    "👩‍👩‍👧‍👦 🇯🇵 e\u0301 \u200b\ufeff",
    "␀ \ufffd tab\there\r\nnew\u2028line",
)
LONG = "x" * 1_000_000
"""A line of a megabyte."""


def is_harmless(screen: str) -> bool:
    """Return whether no control character reached the screen."""
    return not any((ord(char) < 32 and char != "\n") or 127 <= ord(char) < 160 for char in screen)
