"""Find older memories that have to do with a text, for the pack `recall`."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import nlargest
from itertools import chain
from math import log, sqrt
from operator import itemgetter

from zoea.model.enums import Role
from zoea.store.search import fts_terms
from zoea.store.search.query import SEARCH_TOOLS
from zoea.store.search.unspaced_words import character_pattern, is_unspaced, list_forms, split_words

LEAD_CHARS = 80
"""Characters before the first match that are shown too."""
PASSAGE_CHARS = 240
"""Characters of a text within which matches count together, because about as many are shown."""
READ_CHARS = 20_000
"""Characters of a text that are looked through for its best passage."""
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
"""How many memories are looked at for each hit, the best by their words alone."""
READ = 4
"""How many texts are read for each hit, the best by words, length and role."""
MOST_SIGNS = 32
"""The weightiest words that are looked for in these texts; a long prompt has hundreds."""
MOST_PATTERNS = 512
"""Patterns of words that are remembered."""
# One row for all words and one for all candidates, because each row that Python takes costs the event loop a turn of
# the interpreter's lock. They are not ranked by bm25(), which reads the whole list of every term for its frequency.
_NEWEST_WITH = f"""
SELECT json_group_array((
  SELECT json_array(group_concat(id), count(*), min(id)) FROM (
    SELECT rowid / {fts_terms.DOCUMENTS} AS id FROM memory_words
    WHERE memory_words MATCH value AND rowid < (? + 1) * {fts_terms.DOCUMENTS} AND rowid % {fts_terms.DOCUMENTS} = 0
    ORDER BY rowid DESC LIMIT {MOST_ROWS}
  )
)) FROM json_each(?)
"""
_CANDIDATES = f"""
SELECT json_group_array(json_array(id, length(content), role)) FROM memory m
WHERE id IN (SELECT value FROM json_each(?)) AND mysis_id = ? AND content <> '' AND NOT EXISTS (
  SELECT 1 FROM tool_call WHERE result_memory_id = m.id AND name IN ({", ".join(map(repr, SEARCH_TOOLS))})
)
"""
_CONTENT = "SELECT content FROM memory WHERE id = ?"
_NEWEST_EXACT = f"""
SELECT json_group_array((
  SELECT json_array(group_concat(id), count(*), min(id)) FROM (
    SELECT rowid AS id FROM memory_exact WHERE memory_exact MATCH value AND rowid <= ? ORDER BY rowid DESC
    LIMIT {MOST_ROWS}
  )
)) FROM json_each(?)
"""
LOOKED = 2_000
"""The newest memories that are looked through for pairs of characters, which no index has."""
LOOKED_CHARS = 4_000
_TEXTS = f"""
SELECT json_group_array(json_array(id, content)) FROM (
  SELECT id, substr(content, 1, {LOOKED_CHARS}) AS content FROM memory WHERE mysis_id = ? AND id <= ?
  ORDER BY id DESC LIMIT {LOOKED}
) WHERE length(CAST(content AS BLOB)) > length(content) AND content GLOB '*[\u0e00-\u1fff\u3000-\U0010ffff]*'
"""
"""Texts that may have characters of scripts without spaces.

Plain ASCII is left out first, because GLOB tries each of its characters. Two ranges of the characters with three bytes
or more, without punctuation, take it a fifth of the time of all those scripts.
"""
STEM_SHARE = 0.5
"""What a word weighs of which only the beginning matches, as `invoices` for `invoice`."""
LONG_WORD, LEAST_STEM, ENDING = 6, 5, 3
_LATIN_WORD = re.compile(f"{character_pattern('')}+")
_LATIN_LETTERS = frozenset(filter(_LATIN_WORD.match, map(chr, range(256))))
_ODD_LETTER = re.compile("[ſKıİ]")
"""Letters that a pattern without case treats as equal to one of ASCII."""


def find_related(
    connection: sqlite3.Connection, mysis_id: int, text: str, before: int, items: int, shown: tuple[int, ...]
) -> list[tuple[int, int]]:
    """Return the best hits as (memory id, where to begin showing it).

    Prompts, results and answers of one mysis with an id of at most `before` count, without those `shown` and results
    of searches, which repeat others. Common English words of the text are left out, unless it has no others. Rare words
    weigh more, and long memories less.
    """
    words = [word for word in dict.fromkeys(split_words(text)) if len(word) >= SHORTEST or is_unspaced(word)]
    words = ([word for word in words if word.casefold() not in _COMMON] or words)[: fts_terms.GRAMS]
    skipped, scores = set(shown), dict[int, float]()
    spaced = [word for word in words if not is_unspaced(word)]
    unspaced = [word for word in words if is_unspaced(word)]
    weights: dict[str, float] = {}
    for sign, found, weight in chain(
        _find_newest(connection, spaced, mysis_id, before),
        _find_characters(connection, unspaced, mysis_id, before),
        _find_pairs(connection, unspaced, mysis_id, before),
    ):
        weights[sign] = weight
        for memory_id in found:
            scores[memory_id] = scores.get(memory_id, 0.0) + weight
    likely = nlargest(items * CANDIDATES, ((score, one) for one, score in scores.items() if one not in skipped))
    ranked = _rank(connection, mysis_id, {one: score for score, one in likely})[: items * READ]
    weightiest = nlargest(MOST_SIGNS, weights.items(), key=itemgetter(1))
    signs = [
        (sign, [_fold(form) for form in list_forms(sign.removesuffix("*"))], weight) for sign, weight in weightiest
    ]
    passages = []
    for order, (memory_id, share) in enumerate(ranked):
        content = connection.execute(_CONTENT, (memory_id,)).fetchone()[0]
        weight, start = _find_passage(content, signs)
        passages.append((-weight * sqrt(share), order, memory_id, start))
    return [(memory_id, start) for _, _, memory_id, start in sorted(passages)[:items]]


def _fold(text: str) -> str:
    """Fold letters that a pattern without case treats as equal."""
    return text.lower() if text.isascii() else text.replace("İ", "i").replace("ı", "i").casefold()


@lru_cache(MOST_PATTERNS)
def _compile_sign(sign: str) -> re.Pattern[str]:
    """Return a pattern for a word, its beginning (`invoi*`), or characters of an unspaced script."""
    forms = "|".join(map(re.escape, list_forms(sign.removesuffix("*"))))
    if is_unspaced(sign):
        return re.compile(forms)
    letter = character_pattern(forms)
    ending = "" if sign.endswith("*") else rf"{letter}{{0,{ENDING}}}(?!{letter})"
    return re.compile(rf"(?<!{letter})(?:{forms}){ending}", re.IGNORECASE)


def _find_signs(text: str, signs: Sequence[tuple[str, Sequence[str], float]]) -> Iterator[tuple[int, int]]:
    """Yield each place of each sign as (place, number of the sign), in no order. What `_compile_sign` matches."""
    folded = _fold(text)
    # To compile a pattern takes a hundred times as long as to find nothing, and each prompt has other words.
    lowered = "" if _ODD_LETTER.search(text) else text.lower()
    for number, (sign, forms, _) in enumerate(signs):
        if not any(form in folded for form in forms):
            continue
        if lowered and sign.isascii():
            for at in _find_words(text, lowered, forms[0], len(text) if sign.endswith("*") else len(forms[0]) + ENDING):
                yield at, number
        elif len(forms) == 1 and is_unspaced(sign):
            at = text.find(sign)
            while at >= 0:
                yield at, number
                at = text.find(sign, at + len(sign))
        else:
            for match in _compile_sign(sign).finditer(text):
                yield match.start(), number


def _find_words(text: str, lowered: str, beginning: str, longest: int) -> Iterator[int]:
    """Yield the place of each word with this beginning and at most so many letters."""
    at = lowered.find(beginning)
    while at >= 0:
        if at == 0 or text[at - 1] not in _LATIN_LETTERS:
            word = _LATIN_WORD.match(text, at)
            if word is not None and len(beginning) <= word.end() - at <= longest:
                yield at
        at = lowered.find(beginning, at + 1)


def _find_passage(text: str, signs: Sequence[tuple[str, Sequence[str], float]]) -> tuple[float, int]:
    """Return the weight of a text's best passage, and where to begin showing it.

    Args:
        signs: Each with its forms, folded, and what it weighs.
    """
    matches = [*_find_signs(text[:READ_CHARS], signs)]
    matches.sort()
    best, start, weight, first = 0.0, 0, 0.0, 0
    within = Tally[int]()
    for place, number in matches:
        within[number] += 1
        weight += signs[number][2] if within[number] == 1 else 0.0
        while matches[first][0] <= place - PASSAGE_CHARS:
            left = matches[first][1]
            within[left] -= 1
            weight -= 0.0 if within[left] else signs[left][2]
            first += 1
        if weight > best:
            best, start = weight, matches[first][0]
    return best, 0 if start < LEAD_CHARS * 2 else start - LEAD_CHARS


def _find_newest(
    connection: sqlite3.Connection, words: list[str], mysis_id: int, before: int
) -> Iterator[tuple[str, Iterable[int], float]]:
    """Find the newest memories with each word, or with its beginning, and what that weighs."""
    signs: dict[str, tuple[str, float]] = {}
    for word in words:
        if (term := fts_terms.build_word_terms(word, "content", (mysis_id,), every=True)) is not None:
            signs[term] = word, 1.0
        if len(word) >= LONG_WORD:
            stem = word[: max(LEAST_STEM, len(word) - ENDING)]
            owner = " AND ".join(f"owner : {one}" for one in fts_terms.build_owner_terms((mysis_id,)))
            signs[f"{{content}} : {fts_terms.quote_term(stem)} * AND {owner}"] = f"{stem}*", STEM_SHARE
    missing = [word for word in words if any(map(str.isdecimal, word)) and len(word) >= fts_terms.GRAM]
    for sign, found, weight in _read_counted(connection, _NEWEST_WITH, signs, before):
        yield sign, found, weight
        missing = [word for word in missing if word != sign]
    # The word index has a number directly beside characters of a script without spaces as one word with them.
    [owner] = fts_terms.build_owner_terms((mysis_id,))
    grams = {" AND ".join([*fts_terms.build_exact_terms(word, fold=False), owner]): (word, 1.0) for word in missing}
    yield from _read_counted(connection, _NEWEST_EXACT, grams, before)


def _find_characters(
    connection: sqlite3.Connection, runs: list[str], mysis_id: int, before: int
) -> Iterator[tuple[str, Iterable[int], float]]:
    """Find the newest memories with any three characters of unspaced scripts, by the exact index."""
    grams = dict.fromkeys(gram for run in runs for gram in fts_terms.build_exact_terms(run, fold=False))
    [owner] = fts_terms.build_owner_terms((mysis_id,))  # the exact index has no columns
    signs = {f"{gram} AND {owner}": (gram.strip('"'), 1.0) for gram in list(grams)[: fts_terms.GRAMS]}
    yield from _read_counted(connection, _NEWEST_EXACT, signs, before)


def _read_counted(
    connection: sqlite3.Connection, sql: str, signs: Mapping[str, tuple[str, float]], before: int
) -> Iterator[tuple[str, Iterable[int], float]]:
    """Yield the sign, the newest matching memories and the weight of each term."""
    if not signs:
        return
    rows = json.loads(connection.execute(sql, (before, json.dumps(list(signs)))).fetchone()[0])
    for row, (sign, share) in zip(rows, signs.values(), strict=True):
        ids, count, oldest = json.loads(row) if isinstance(row, str) else row
        if ids is not None:
            whole = count if count < MOST_ROWS else count * before / max(1, before - oldest + 1)
            yield sign, map(int, str(ids).split(",")), share * _weigh(before, whole)


def _find_pairs(
    connection: sqlite3.Connection, runs: list[str], mysis_id: int, before: int
) -> Iterator[tuple[str, Iterable[int], float]]:
    """Find memories with two neighbouring characters of scripts without spaces, where most words have two."""
    pairs = dict.fromkeys(run[at : at + 2] for run in runs for at in range(max(1, len(run) - 1)))
    if not pairs:
        return
    texts = json.loads(connection.execute(_TEXTS, (mysis_id, before)).fetchone()[0])
    for pair in pairs:
        ids = [memory_id for memory_id, text in texts if pair in text]
        if ids:
            yield pair, ids, _weigh(max(len(texts), before), len(ids))


def _rank(connection: sqlite3.Connection, mysis_id: int, scores: dict[int, float]) -> list[tuple[int, float]]:
    """Sort memories by their words, their length and their role, the best first. Return what each word counts."""
    row = connection.execute(_CANDIDATES, (json.dumps(list(scores)), mysis_id)).fetchone()[0]
    read = json.loads(row)
    mean = sum(length for _, length, _ in read) / max(1, len(read))
    shares = {one: _share(length / mean) * _SHARES.get(role, 1.0) for one, length, role in read}
    return sorted(shares.items(), key=lambda one: (scores[one[0]] * one[1], one[0]), reverse=True)


def _weigh(memories: int, having: float) -> float:
    """Return what a word weighs that so many of the memories have, as BM25 does."""
    return log(1 + (max(0.0, memories - having) + 0.5) / (having + 0.5))


def _share(length: float) -> float:
    """Return how much the words of a text count, as BM25 does. `length` is relative to the mean."""
    return 2.2 / (1 + 1.2 * (0.25 + 0.75 * length))
