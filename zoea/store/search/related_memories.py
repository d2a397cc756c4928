"""Find older memories that have to do with a text, for the pack `recall`."""

from __future__ import annotations

import re
import sqlite3

from zoea.store.search import fts_terms
from zoea.store.search.memory_search import RANKED, matching_ids
from zoea.store.search.query import MemoryQuery
from zoea.store.search.unspaced_words import is_unspaced, split_words, word_pattern

LEAD_CHARS = 80
"""Characters before the first match that are shown too."""
SHORTEST = 2
_ANSWER_SHARE = 0.5  # an own answer counts half: an earlier wrong answer has all words of the question
_COMMON = frozenset(
    split_words(
        "a an and are as at be been but by can could did do does for from had has have he her his how i if in is it its"
        " me my no not of on or our please she so tell than that the their them then there they this to us was we were"
        " what when where which who why will with would you your"
    )
)
_RELATED = f"""
SELECT m.id, m.content, bm25(memory_words, 0.0, 1.0, 0.0) * (CASE m.role WHEN 'assistant' THEN {_ANSWER_SHARE}
  ELSE 1.0 END) AS score
FROM memory_words f CROSS JOIN memory m ON m.id = f.rowid / {fts_terms.DOCUMENTS}
WHERE f.memory_words MATCH :terms AND f.rowid < (:before + 1) * {fts_terms.DOCUMENTS} AND m.mysis_id = :mysis
  AND m.content <> '' AND f.rowid % {fts_terms.DOCUMENTS} = 0
ORDER BY f.rowid DESC LIMIT {RANKED}
"""


def find_related(
    connection: sqlite3.Connection, mysis_id: int, text: str, before: int, items: int, shown: tuple[int, ...]
) -> list[tuple[int, int]]:
    """Return the best hits as (memory id, where to begin showing it).

    Prompts, results and answers of one mysis with an id of at most `before` count, without those `shown`. Common
    English words of the text are left out, unless it has no others.
    """
    words = [word for word in dict.fromkeys(split_words(text)) if len(word) >= SHORTEST or is_unspaced(word)]
    words = ([word for word in words if word.casefold() not in _COMMON] or words)[: fts_terms.GRAMS]
    if not words:
        return []
    skipped, scores, texts = set(shown), dict[int, float](), dict[int, str]()
    spaced = [word for word in words if not is_unspaced(word)]
    terms = fts_terms.build_word_terms(" ".join(spaced), "content", (mysis_id,), every=False)
    if terms is not None:
        given = {"terms": terms, "before": before, "mysis": mysis_id}
        for memory_id, content, score in connection.execute(_RELATED, given):
            if memory_id not in skipped:
                scores[memory_id], texts[memory_id] = score, content
    for word in words:
        if is_unspaced(word):
            query = MemoryQuery(word, mysis_ids=(mysis_id,), before_id=before + 1)
            for memory_id in matching_ids(connection, query, items * 4):
                if memory_id not in skipped:
                    scores[memory_id] = scores.get(memory_id, 0.0) - 1.0
    best = sorted(scores, key=lambda each: (scores[each], -each))[:items]
    pattern = word_pattern(words)
    return [(memory_id, _place(pattern.search(texts.get(memory_id, "")))) for memory_id in best]


def _place(match: re.Match[str] | None) -> int:
    """Return where to begin, so that a match in the middle of a long text is shown."""
    start = 0 if match is None else match.start()
    return 0 if start < LEAD_CHARS * 2 else start - LEAD_CHARS
