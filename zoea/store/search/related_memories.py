"""Find older memories that have to do with a text, for the pack `recall`."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from heapq import nlargest
from math import log

from zoea.model.enums import Role
from zoea.store.search import fts_terms
from zoea.store.search.memory_search import matching_ids
from zoea.store.search.query import MemoryQuery
from zoea.store.search.unspaced_words import is_unspaced, split_words, word_pattern

LEAD_CHARS = 80
"""Characters before the first match that are shown too."""
SHORTEST = 2
_SHARES = {
    Role.ASSISTANT.value: 0.5
}  # an own answer counts half: an earlier wrong answer has all words of the question
_COMMON = frozenset(
    split_words(
        "a an and are as at be been but by can could did do does for from had has have he her his how i if in is it its"
        " me my no not of on or our please she so tell than that the their them then there they this to us was we were"
        " what when where which who why will with would you your"
    )
)
MOST_ROWS = 1_000
"""Of each word the newest rows count; how common it is follows from how far they reach back."""
CANDIDATES = 20
"""How many memories are read for each hit, the best by their words alone."""
# One row for each word, because each row that Python takes costs the event loop a turn of the interpreter's lock. It
# is not ranked by bm25(), which reads the whole list of every term for its frequency.
_NEWEST_WITH = f"""
SELECT group_concat(id), count(*), min(id) FROM (
  SELECT rowid / {fts_terms.DOCUMENTS} AS id FROM memory_words
  WHERE memory_words MATCH ? AND rowid < (? + 1) * {fts_terms.DOCUMENTS} AND rowid % {fts_terms.DOCUMENTS} = 0
  ORDER BY rowid DESC LIMIT {MOST_ROWS}
)
"""
_CANDIDATE = "SELECT content, role FROM memory WHERE id = ? AND mysis_id = ? AND content <> ''"


def find_related(
    connection: sqlite3.Connection, mysis_id: int, text: str, before: int, items: int, shown: tuple[int, ...]
) -> list[tuple[int, int]]:
    """Return the best hits as (memory id, where to begin showing it).

    Prompts, results and answers of one mysis with an id of at most `before` count, without those `shown`. Common
    English words of the text are left out, unless it has no others. Rare words weigh more, and long memories less.
    """
    words = [word for word in dict.fromkeys(split_words(text)) if len(word) >= SHORTEST or is_unspaced(word)]
    words = ([word for word in words if word.casefold() not in _COMMON] or words)[: fts_terms.GRAMS]
    skipped, scores = set(shown), dict[int, float]()
    for word in words:
        if is_unspaced(word):
            query = MemoryQuery(word, mysis_ids=(mysis_id,), before_id=before + 1)
            found: Iterable[int] = matching_ids(connection, query, items * 4)
            weight = _weigh(before, items * 4)
        else:
            found, weight = _find_newest(connection, word, mysis_id, before)
        for memory_id in found:
            scores[memory_id] = scores.get(memory_id, 0.0) + weight
    likely = nlargest(items * CANDIDATES, ((score, one) for one, score in scores.items() if one not in skipped))
    read = [(score, one, connection.execute(_CANDIDATE, (one, mysis_id)).fetchone()) for score, one in likely]
    known = [(score, one, row[0], row[1]) for score, one, row in read if row is not None]
    mean = sum(len(content) for _, _, content, _ in known) / max(1, len(known))
    ranked = sorted(known, key=lambda one: (-one[0] * _share(len(one[2]) / mean) * _SHARES.get(one[3], 1.0), -one[1]))
    pattern = word_pattern(words)
    return [(memory_id, _place(pattern.search(content))) for _, memory_id, content, _ in ranked[:items]]


def _find_newest(connection: sqlite3.Connection, word: str, mysis_id: int, before: int) -> tuple[Iterable[int], float]:
    """Return the newest memories with a word, and what the word weighs."""
    terms = fts_terms.build_word_terms(word, "content", (mysis_id,), every=True)
    row = connection.execute(_NEWEST_WITH, (terms, before)).fetchone() if terms is not None else (None, 0, 0)
    ids, count, oldest = row
    if ids is None:
        return (), 0.0
    whole = count if count < MOST_ROWS else count * before / max(1, before - oldest + 1)
    return map(int, ids.split(",")), _weigh(before, whole)


def _weigh(memories: int, having: float) -> float:
    """Return what a word weighs that so many of the memories have, as BM25 does."""
    return log(1 + (max(0.0, memories - having) + 0.5) / (having + 0.5))


def _share(length: float) -> float:
    """Return how much the words of a text count, as BM25 does; `length` is relative to the mean."""
    return 2.2 / (1 + 1.2 * (0.25 + 0.75 * length))


def _place(match: re.Match[str] | None) -> int:
    """Return where to begin, so that a match in the middle of a long text is shown."""
    start = 0 if match is None else match.start()
    return 0 if start < LEAD_CHARS * 2 else start - LEAD_CHARS
