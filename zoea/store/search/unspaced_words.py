"""Ranked search for scripts without spaces, such as Chinese, Japanese and Thai.

The word index holds such a run of characters as one word, with the number or name that stands directly beside it. So
these words are looked for as exact text, and the matches are ranked here by BM25, over the candidates alone.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

from zoea.text.lazy_pattern import compile_lazily
from zoea.text.sentences import UNSPACED

_WORDS = compile_lazily(rf"[{UNSPACED}]+|[^\W_{UNSPACED}]+")
_IS_UNSPACED = compile_lazily(rf"[{UNSPACED}]")
_SATURATION, _LENGTH_SHARE = 1.2, 0.75
"""The two constants of BM25, as FTS5 has them."""


def split_words(text: str) -> list[str]:
    """Return the words of a query, in order, with composed letters. A run of an unspaced script is one word."""
    return _WORDS.findall(unicodedata.normalize("NFC", text))


def list_forms(text: str) -> tuple[str, ...]:
    """Return a text as it is, with composed and with decomposed letters. Stored texts may have either."""
    if text.isascii():
        return (text,)
    return tuple(dict.fromkeys((text, *(unicodedata.normalize(form, text) for form in ("NFC", "NFD")))))


def is_unspaced(word: str) -> bool:
    """Return whether a word is of a script without spaces; `split_words` never mixes them."""
    return _IS_UNSPACED.match(word) is not None


def character_pattern(word: str) -> str:
    """Return a pattern for a character that continues a word. Those of unspaced scripts continue no ASCII word.

    It names few characters, because a regular expression with all of a script takes 5 ms to compile.
    """
    return "(?-i:[0-9A-Za-z_À-ÖØ-öø-ÿ])" if word.isascii() else r"\w"


def word_pattern(words: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern for any of the words. Words of unspaced scripts match within a text, others whole."""
    ordered = sorted({form for word in words for form in list_forms(word)}, key=len, reverse=True)
    whole = "|".join(re.escape(word) for word in ordered if not is_unspaced(word))
    parts = [re.escape(word) for word in ordered if is_unspaced(word)]
    if whole:
        letter = character_pattern(whole)
        parts.append(rf"(?<!{letter})(?:{whole})(?!{letter})")
    return re.compile("|".join(parts) or r"(?!)", re.IGNORECASE)


def rank_matches(
    words: Sequence[str], find: Callable[[str], list[int]], read: Callable[[list[int]], Iterable[tuple[int, str]]]
) -> tuple[list[int], bool]:
    """Return the ids of the matches, best first, and whether they have every word.

    Args:
        find: Returns the ids of the newest rows with a word.
        read: Returns the texts of rows.
    """
    sets = [set(find(word)) for word in words]
    every = set.intersection(*sets)
    texts = dict(read(sorted(every or set.union(*sets))))
    mean = max(1.0, sum(map(len, texts.values())) / max(1, len(texts)))
    scores = dict.fromkeys(texts, 0.0)
    for word, rows in zip(words, sets, strict=True):
        weight = math.log(1 + 1_000_000 / (len(rows) + 1))
        pattern = word_pattern([word])
        for row, text in texts.items():
            if count := sum(1 for _ in pattern.finditer(text)):
                room = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * len(text) / mean)
                scores[row] += weight * count * (_SATURATION + 1) / (count + room)
    return sorted(scores, key=lambda row: (-scores[row], -row)), bool(every)
