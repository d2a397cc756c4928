"""What the indexes are asked: expressions of FTS5 that propose at least every row that matches. Pure."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import product

from zoea.store.search.excerpts import split_words

GRAM = 3
GRAMS = 24
"""Characters of a term of the exact index, and terms of one question: more narrow it no further."""
OWNERS = 24
"""Owners named in one question."""
_SMALL = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def build_exact_terms(text: str, *, fold: bool) -> list[str]:
    """What every row that holds `text` must have: its trigrams, each as a question to the exact index.

    Empty where it is too short to have one. With `fold` each question is for a trigram
    in any case, which is up to eight. The index knows no columns and no places: what it
    proposes is decided by the text itself, so any of these may be left out.
    """
    grams = list(dict.fromkeys(text[at : at + GRAM] for at in range(len(text) - GRAM + 1)))[:GRAMS]
    return [_any_of(_cases(gram)) if fold else quote_term(gram) for gram in grams]


def fold_case(text: str, *, fold: bool) -> str:
    """The text that a row's is compared with: where any case is meant, A to Z small, which is all SQLite folds."""
    return text.translate(_SMALL) if fold else text


def build_owner_terms(owners: tuple[int, ...] | None) -> list[str]:
    """The rows of these myses; none where all are meant, or too many to be named."""
    return [_any_of([encode_owner(owner) for owner in owners])] if owners and len(owners) <= OWNERS else []


def build_word_terms(text: str, columns: str, owners: tuple[int, ...] | None, *, every: bool) -> str | None:
    """The rows with every word of `text`, or with any; None where it has no words.

    `columns` are those of the index, separated by spaces.
    """
    words = list(dict.fromkeys(split_words(text)))[:GRAMS]
    if not words:
        return None
    terms = f"{{{columns}}} : ({(' AND ' if every else ' OR ').join(map(quote_term, words))})"
    return " AND ".join([terms, *(f"owner : {term}" for term in build_owner_terms(owners))])


def encode_owner(mysis_id: int) -> str:
    """The three private-use characters that mark a mysis's rows in the indexes; the same as the view's in SQL."""
    return chr(983_040 + mysis_id // 3_600) + chr(987_040 + mysis_id // 60 % 60) + chr(988_040 + mysis_id % 60)


def quote_term(term: str) -> str:
    """A term as FTS5 takes it literally."""
    return '"' + term.replace('"', '""') + '"'


def _cases(gram: str) -> list[str]:
    """A trigram with its letters A to Z in every case; others as they are."""
    letters = [{each.lower(), each.upper()} if each.isascii() and each.isalpha() else {each} for each in gram]
    return sorted("".join(each) for each in product(*letters))


def _any_of(terms: Iterable[str]) -> str:
    return f"({' OR '.join(map(quote_term, terms))})"


# An index reads the whole list of each term that it is asked for, so all trigrams of a
# long phrase cost more than the rows they would save from a look. A probe (a tenth of a
# millisecond) tells how frequent a term is among the newest rows.

LARGE = 50_000
"""Rows from which on choosing pays; terms in any case are up to `CASES` lists each, and it pays so much sooner."""
CASES = 8
PROBE = 64
"""Rows of a term that a probe asks for: a term with fewer is all that is needed."""
_LOOK = 3_000
"""What looking at a row costs, in entries of a list; more than it does, for terms that come together."""


def choose_rare_terms(
    connection: sqlite3.Connection, index: str, terms: Sequence[str], newest: int, *, fold: bool = False
) -> list[str]:
    """Some of the terms, the rarest first: enough that the rows left cost less to look at than another list to read.

    `newest` is the highest row id of the index; `fold` says that the terms are for any case.
    """
    found = estimate_shares(connection, index, terms, newest, fold=fold)
    if not found:
        return list(terms)
    chosen, left = list[str](), 1.0
    for share, term in found:
        if chosen and share >= _LOOK * left * (1 - share):
            break
        chosen.append(term)
        left *= share
    return chosen


def estimate_shares(
    connection: sqlite3.Connection, index: str, terms: Sequence[str], newest: int, *, fold: bool = False
) -> list[tuple[float, str]]:
    """How many of the newest rows have each term, the rarest first, up to one that is rare enough alone.

    Nothing where the index is so small that asking does not pay.
    """
    if newest < (LARGE // CASES if fold else LARGE):
        return []
    sql = f"SELECT rowid FROM {index} WHERE {index} MATCH ? ORDER BY rowid DESC LIMIT 1 OFFSET {PROBE - 1}"
    found: list[tuple[float, str]] = []
    for term in terms:
        row = connection.execute(sql, (term,)).fetchone()
        if row is None:
            return [(0.0, term)]
        found.append((PROBE / max(PROBE, newest - row[0] + 1), term))
    return sorted(found)
