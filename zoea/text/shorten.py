"""Shorten a text visibly, with a note about the missing part.

Lengths are characters (code points). A cut never splits a displayed character: combining marks,
joined emoji, flags, CR LF.
"""

from __future__ import annotations

import unicodedata

ELLIPSIS = "…"
_JOINER = "\u200d"
_LONGEST_CLUSTER = 32
_HEAD_SHARE = (3, 5)


def head(text: str, max_chars: int) -> str:
    """Return the first characters of a text, ending in `…` if any were left out."""
    if len(text) <= max_chars:
        return text
    if max_chars <= 0:
        return ""
    return text[: _boundary_before(text, max_chars - 1)] + ELLIPSIS


def head_with_length(text: str, max_chars: int) -> str:
    """Return the first characters of a text, with its length if any were left out."""
    return text if len(text) <= max_chars else f"{head(text, max_chars)} ({len(text):,} characters)"


def middle(text: str, max_chars: int, note: str = "") -> str:
    """Shorten a text to its head and tail; a line between says what is missing.

    The line is `[… 41,230 characters left out; NOTE]`, without `; NOTE` if the note is empty. The head
    gets three fifths. If the line does not fit into `max_chars`, returns `head(text, max_chars)`.
    """
    if len(text) <= max_chars:
        return text
    room = max_chars - len(_marker(len(text), note))
    if room < 0:
        return head(text, max_chars)
    share, whole = _HEAD_SHARE
    head_end = _boundary_before(text, room * share // whole)
    tail_start = _boundary_after(text, len(text) - (room - room * share // whole))
    return text[:head_end] + _marker(tail_start - head_end, note) + text[tail_start:]


def _marker(left_out: int, note: str) -> str:
    return f"\n[… {left_out:,} characters left out{'; ' if note else ''}{note}]\n"


def _boundary_before(text: str, index: int) -> int:
    """Return the nearest cut position at or before `index`; `index` itself in very long clusters."""
    for place in range(index, max(index - _LONGEST_CLUSTER, -1), -1):
        if not _joins(text, place):
            return place
    return index


def _boundary_after(text: str, index: int) -> int:
    for place in range(index, min(index + _LONGEST_CLUSTER, len(text) + 1)):
        if not _joins(text, place):
            return place
    return index


def _joins(text: str, place: int) -> bool:
    """Return whether the characters on both sides of `place` are displayed as one."""
    if place <= 0 or place >= len(text):
        return False
    left, right = text[place - 1], text[place]
    if right < "\u0300":
        return left == "\r" and right == "\n"
    if right == _JOINER or left == _JOINER or unicodedata.category(right)[0] == "M":
        return True
    if "\U0001f3fb" <= right <= "\U0001f3ff":
        return True
    return _is_flag_half(left) and _is_flag_half(right) and _flag_halves_before(text, place) % 2 == 1


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flag_halves_before(text: str, place: int) -> int:
    start = place
    while start > max(0, place - _LONGEST_CLUSTER) and _is_flag_half(text[start - 1]):
        start -= 1
    return place - start
