"""What the indexes are asked: expressions of FTS5 that propose at least every row that matches. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from zoea.store.recall.excerpts import words_of

GRAM = 3
GRAMS = 24
"""Characters of a term of the exact index, and terms of one question: more narrow it no further."""
OWNERS = 24
"""Owners named in one question."""
_SMALL = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def exact_terms(text: str, *, fold: bool) -> list[str]:
    """What every row that holds `text` must have: its trigrams, each as a question to the exact index.

    Empty where it is too short to have one. With `fold` each question is for a trigram
    in any case, which is up to eight. The index knows no columns and no places: what it
    proposes is decided by the text itself, so any of these may be left out.
    """
    grams = list(dict.fromkeys(text[at : at + GRAM] for at in range(len(text) - GRAM + 1)))[:GRAMS]
    return [_any_of(_cases(gram)) if fold else quoted(gram) for gram in grams]


def compared(text: str, *, fold: bool) -> str:
    """The text that a row's is compared with: where any case is meant, A to Z small, which is all SQLite folds."""
    return text.translate(_SMALL) if fold else text


def owner_terms(owners: tuple[int, ...] | None) -> list[str]:
    """The rows of these myses; none where all are meant, or too many to be named."""
    return [_any_of([owner_text(owner) for owner in owners])] if owners and len(owners) <= OWNERS else []


def word_terms(text: str, columns: str, owners: tuple[int, ...] | None, *, every: bool) -> str | None:
    """The rows with every word of `text`, or with any; None where it has no words.

    `columns` are those of the index, separated by spaces.
    """
    words = list(dict.fromkeys(words_of(text)))[:GRAMS]
    if not words:
        return None
    terms = f"{{{columns}}} : ({(' AND ' if every else ' OR ').join(map(quoted, words))})"
    return " AND ".join([terms, *(f"owner : {term}" for term in owner_terms(owners))])


def owner_text(mysis_id: int) -> str:
    """The three private-use characters that mark a mysis's rows in the indexes; the same as the view's in SQL."""
    return chr(983_040 + mysis_id // 3_600) + chr(987_040 + mysis_id // 60 % 60) + chr(988_040 + mysis_id % 60)


def quoted(term: str) -> str:
    """A term as FTS5 takes it literally."""
    return '"' + term.replace('"', '""') + '"'


def _cases(gram: str) -> list[str]:
    """A trigram with its letters A to Z in every case; others as they are."""
    letters = [{each.lower(), each.upper()} if each.isascii() and each.isalpha() else {each} for each in gram]
    return sorted("".join(each) for each in product(*letters))


def _any_of(terms: Iterable[str]) -> str:
    return f"({' OR '.join(map(quoted, terms))})"
