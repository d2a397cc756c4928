"""Build FTS5 expressions that match at least every row a query wants.

The index reads the whole list of each term it is asked for, so all trigrams of a long phrase cost
more than the rows they exclude. A probe (0.1 ms) tells how frequent a term is among the newest rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import product

from zoea.store.search.unspaced_words import split_words

DOCUMENTS = 4096
"""Row ids of the ranked index per memory: the first for itself, the rest for its calls."""
GRAM = 3
GRAMS = 24
"""Trigrams or words used of one query; more exclude hardly any row."""
OWNERS = 24
"""Myses named in one expression."""
_SMALL = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
LARGE = 50_000
"""Rows from which choosing terms pays."""
CASES = 8
PROBE = 64
"""Rows a probe asks for; a term with fewer is sufficient alone."""
ROW_COST = 3_000
"""The cost of checking one row, in list entries; above the measured cost because terms correlate."""


def build_exact_terms(text: str, *, fold: bool) -> list[str]:
    """Return the trigrams of `text`, each as an expression for the exact index.

    Empty if the text is shorter than a trigram. With `fold` each expression covers all cases of its
    letters, up to eight. Any of them may be left out because the stored text decides.
    """
    grams = list(dict.fromkeys(text[at : at + GRAM] for at in range(len(text) - GRAM + 1)))[:GRAMS]
    return [_any_of(_cases(gram)) if fold else quote_term(gram) for gram in grams]


def fold_case(text: str, *, fold: bool) -> str:
    """Return a text to compare with rows: A to Z in lower case, as SQLite folds them."""
    return text.translate(_SMALL) if fold else text


def build_owner_terms(owners: tuple[int, ...] | None) -> list[str]:
    """Return the expression for the rows of these myses. None for all, or for too many."""
    return [_any_of([encode_owner(owner) for owner in owners])] if owners and len(owners) <= OWNERS else []


def build_word_terms(text: str, columns: str, owners: tuple[int, ...] | None, *, every: bool) -> str | None:
    """Return the expression for rows with every word of `text`, or any; None without words.

    `columns` are columns of the index, separated by spaces.
    """
    words = list(dict.fromkeys(split_words(text)))[:GRAMS]
    if not words:
        return None
    terms = f"{{{columns}}} : ({(' AND ' if every else ' OR ').join(map(quote_term, words))})"
    return " AND ".join([terms, *(f"owner : {term}" for term in build_owner_terms(owners))])


def encode_owner(mysis_id: int) -> str:
    """Return the three private-use characters that mark the rows of a mysis. The view in SQL makes the same."""
    return chr(983_040 + mysis_id // 3_600) + chr(987_040 + mysis_id // 60 % 60) + chr(988_040 + mysis_id % 60)


def quote_term(term: str) -> str:
    """Quote a term as FTS5 takes it literally."""
    return '"' + term.replace('"', '""') + '"'


def _cases(gram: str) -> list[str]:
    """Return a trigram in all cases of its letters A to Z."""
    letters = [{each.lower(), each.upper()} if each.isascii() and each.isalpha() else {each} for each in gram]
    return sorted("".join(each) for each in product(*letters))


def _any_of(terms: Iterable[str]) -> str:
    return f"({' OR '.join(map(quote_term, terms))})"


def choose_rare_terms(
    connection: sqlite3.Connection, index: str, terms: Sequence[str], newest: int, *, fold: bool = False
) -> list[str]:
    """Return the rarest terms, as many as save more than reading their lists costs.

    `newest` is the highest row id of the index; `fold` says that each term covers all cases.
    """
    shares = estimate_shares(connection, index, terms, newest, fold=fold)
    if not shares:
        return list(terms)
    chosen, left = list[str](), 1.0
    for share, term in shares:
        if chosen and share >= ROW_COST * left * (1 - share):
            break
        chosen.append(term)
        left *= share
    return chosen


def estimate_shares(
    connection: sqlite3.Connection, index: str, terms: Sequence[str], newest: int, *, fold: bool = False
) -> list[tuple[float, str]]:
    """Return each term's share of the newest rows. The estimate stops at a term that is rare enough. Rarest first.

    Empty if the index is too small for probes to pay.
    """
    if newest < (LARGE // CASES if fold else LARGE):
        return []
    sql = f"SELECT rowid FROM {index} WHERE {index} MATCH ? ORDER BY rowid DESC LIMIT 1 OFFSET {PROBE - 1}"
    shares: list[tuple[float, str]] = []
    for term in terms:
        row = connection.execute(sql, (term,)).fetchone()
        if row is None:
            return [(0.0, term)]
        shares.append((PROBE / max(PROBE, newest - row[0] + 1), term))
    return sorted(shares)
