"""Patterns over long texts, in steps between which other threads run.

`re` keeps the interpreter's lock for as long as one search takes: seconds in a text of 20 MB, also in a thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import AnyStr

STEP = 32_768
"""Characters of one search. The dearest pattern takes 200 ns for each, so 7 ms."""
_EDGE = 1_024
"""Characters at the end of a step in which a match may begin, or end, otherwise than in the whole text."""


def search_in_steps(pattern: re.Pattern[AnyStr], text: AnyStr, start: int = 0) -> re.Match[AnyStr] | None:
    """Find the first match from a place on. What decides that a match begins must not be longer than `_EDGE`.

    A match that ends near the end of its step is searched again in a step of twice its length.
    """
    end = start + STEP
    while True:
        match = pattern.search(text, start, end)
        if end >= len(text) or (match is not None and match.end() + _EDGE <= end):
            return match
        start = max(start, end - _EDGE) if match is None else match.start()
        end += STEP if match is None else max(STEP, end - start)


def replace_in_steps(pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str], text: str) -> str:
    """Replace all matches, none of which is empty, as `pattern.sub` does."""
    if len(text) <= STEP:
        return pattern.sub(replace, text)
    parts, end = list[str](), 0
    while (match := search_in_steps(pattern, text, end)) is not None:
        parts += (text[end : match.start()], replace(match))
        end = match.end()
    return "".join((*parts, text[end:]))
