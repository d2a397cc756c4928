"""Choosing what an exact index is asked: few terms that leave few rows.

An index reads the whole list of each term that it is asked for, so all trigrams of a
long phrase cost more than the rows they would save from a look. A probe (a tenth of a
millisecond) tells how frequent a term is among the newest rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

LARGE = 50_000
"""Rows from which on choosing pays; terms in any case are up to `CASES` lists each, and it pays so much sooner."""
CASES = 8
PROBE = 64
"""Rows of a term that a probe asks for: a term with fewer is all that is needed."""
_LOOK = 3_000
"""What looking at a row costs, in entries of a list; more than it does, for terms that come together."""


def narrowed(
    connection: sqlite3.Connection, index: str, terms: Sequence[str], newest: int, *, fold: bool = False
) -> list[str]:
    """Some of the terms, the rarest first: enough that the rows left cost less to look at than another list to read.

    `newest` is the highest row id of the index; `fold` says that the terms are for any case.
    """
    found = shares(connection, index, terms, newest, fold=fold)
    if not found:
        return list(terms)
    chosen, left = list[str](), 1.0
    for share, term in found:
        if chosen and share >= _LOOK * left * (1 - share):
            break
        chosen.append(term)
        left *= share
    return chosen


def shares(
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
