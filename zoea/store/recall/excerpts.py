"""Cutting a long text around what was found in it, and marking it there. Pure.

Highlights are found in the text itself: the index keeps no places.
"""

from __future__ import annotations

import re

from zoea.store.recall.query import Excerpt, Match

_LEAD = 4
"""A quarter of an excerpt at most stands before its first hit."""
_MARKS = 100


def around(text: str, pattern: re.Pattern[str] | None, max_chars: int) -> Excerpt:
    """The part of `text` around the first match, with every match in it marked; its beginning where there is none."""
    found = pattern.search(text) if pattern is not None else None
    start = 0
    if len(text) > max_chars and found is not None:
        lead = min(max_chars // _LEAD, max(0, max_chars - (found.end() - found.start())))
        start = min(max(0, found.start() - lead), len(text) - max_chars)
    part = text[start : start + max_chars]
    marks = []
    for each in pattern.finditer(part) if pattern is not None and found is not None else ():
        marks.append((each.start(), each.end() - each.start()))
        if len(marks) == _MARKS:
            break
    return Excerpt(part, start, len(text), tuple(marks))


def pattern_of(text: str, match: Match, *, fold: bool) -> re.Pattern[str]:
    """What marks the hits of a query: the text as it is, or any of its words. Only A to Z are folded, as in SQLite."""
    if match is Match.EXACT:
        return re.compile(re.escape(text), re.ASCII | re.IGNORECASE if fold else 0)
    words = sorted(set(words_of(text)), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)" if words else r"(?!)", re.IGNORECASE)


def words_of(text: str) -> list[str]:
    """The words of a query, in its order."""
    return re.findall(r"[^\W_]+", text)
