"""Cut a text around a match and mark the matches. Pure.

Matches are located in the text itself because the index stores no positions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from zoea.store.search.query import BroadcastHit, Excerpt, HitPlace, MatchMode, MemoryHit
from zoea.store.search.unspaced_words import list_forms, split_words, word_pattern

_LEAD = 4
"""At most a quarter of an excerpt precedes its first match."""
_MARKS = 100
_BESIDE = 100
"""Characters kept of content shown beside a match found elsewhere."""
AnyHit = TypeVar("AnyHit", MemoryHit, BroadcastHit)


def cut_excerpt(text: str, pattern: re.Pattern[str] | None, max_chars: int) -> Excerpt:
    """Return the part of `text` around the first match, or its beginning. All matches in it are marked."""
    match = pattern.search(text) if pattern is not None else None
    start = 0
    if len(text) > max_chars and match is not None:
        start = _start(match.start(), match.end() - match.start(), len(text), max_chars)
    part = text[start : start + max_chars]
    marks = []
    for each in pattern.finditer(part) if pattern is not None and match is not None else ():
        marks.append((each.start(), each.end() - each.start()))
        if len(marks) == _MARKS:
            break
    return Excerpt(part, start, len(text), tuple(marks))


def shorten_excerpt(excerpt: Excerpt, max_chars: int) -> Excerpt:
    """Shorten an excerpt, keeping its first match."""
    if len(excerpt.text) <= max_chars:
        return excerpt
    start = _start(*(excerpt.marks or ((0, 0),))[0], len(excerpt.text), max_chars)
    end = start + max_chars
    marks = tuple((at - start, length) for at, length in excerpt.marks if at >= start and at + length <= end)
    return Excerpt(excerpt.text[start:end], excerpt.start + start, excerpt.total, marks)


def fit_hit(hit: AnyHit, fits: Callable[[AnyHit], bool]) -> AnyHit:
    """Shorten the texts of a hit until `fits` accepts it, content beside the match first."""
    while not fits(hit) and hit.excerpt.text:
        less = len(hit.excerpt.text) * 3 // 4
        if isinstance(hit, BroadcastHit):
            hit = replace(hit, excerpt=shorten_excerpt(hit.excerpt, less))
        elif hit.spot is HitPlace.CONTENT:
            excerpt = shorten_excerpt(hit.excerpt, less)
            hit = replace(hit, excerpt=excerpt, content=excerpt)
        elif len(hit.content.text) > _BESIDE:
            hit = replace(hit, content=shorten_excerpt(hit.content, max(_BESIDE, len(hit.content.text) * 3 // 4)))
        else:
            hit = replace(hit, excerpt=shorten_excerpt(hit.excerpt, less))
    return hit


def _start(at: int, length: int, total: int, max_chars: int) -> int:
    """Return where an excerpt of `max_chars` begins to show the match at `at`."""
    lead = min(max_chars // _LEAD, max(0, max_chars - length))
    return min(max(0, at - lead), total - max_chars)


def compile_pattern(text: str, match: MatchMode, *, fold: bool) -> re.Pattern[str]:
    """Return a pattern for matches: the exact text, or any of its words. Only A to Z are folded, as in SQLite."""
    if match is MatchMode.EXACT:
        return re.compile("|".join(map(re.escape, list_forms(text))), re.ASCII | re.IGNORECASE if fold else 0)
    return word_pattern(split_words(text))
