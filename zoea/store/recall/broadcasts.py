"""Searching what was said to all, each broadcast once however many heard it."""

from __future__ import annotations

import sqlite3

from zoea.model.words import SenderKind
from zoea.store.recall import terms
from zoea.store.recall.excerpts import around, pattern_of
from zoea.store.recall.memories import FEW, NO_WORDS
from zoea.store.recall.query import BroadcastHit, BroadcastHits, BroadcastQuery, Match

_SMALL = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_OF = """(g.sender_id = :mysis OR EXISTS (SELECT 1 FROM delivery d
  WHERE d.message_id = g.id AND d.mysis_id = :mysis AND d.state IN ('pending', 'taken')))"""
_COLUMNS = "g.id, g.sender_kind, g.sender_id, g.sender_name, g.content, g.created_at"


def search_broadcasts(connection: sqlite3.Connection, query: BroadcastQuery) -> BroadcastHits:
    """A page of the broadcasts that hold what the query asks for, newest first, or the best first where it is ranked.

    Raises sqlite3.OperationalError where the connection was interrupted.
    """
    sql, given = _narrowed(query)
    if query.match is Match.RANKED:
        asked = terms.word_terms(query.text, "content", None, every=True)
        if asked is None:
            return BroadcastHits(note=NO_WORDS)
        given["terms"] = asked
        found = _rows(
            connection,
            f"SELECT {_COLUMNS} FROM message_words f CROSS JOIN message g ON g.id = f.rowid"
            f" WHERE f.message_words MATCH :terms AND {sql} ORDER BY bm25(message_words), g.id DESC LIMIT :most",
            given,
        )
        return BroadcastHits(_hits(found[: query.limit], query))
    fold = "lower" if query.fold else ""
    sql = f"{sql} AND instr({fold}(g.content), :words) > 0"
    given["words"] = query.text.translate(_SMALL) if query.fold else query.text
    proposed = terms.exact_terms(query.text, fold=query.fold)
    source = "message g WHERE"
    if proposed and _are_many(connection):
        source = "message_exact f CROSS JOIN message g ON g.id = f.rowid WHERE f.message_exact MATCH :terms AND"
        given["terms"] = " AND ".join(proposed)
    order = "f.rowid" if "terms" in given else "g.id"
    found = _rows(connection, f"SELECT {_COLUMNS} FROM {source} {sql} ORDER BY {order} DESC LIMIT :most", given)
    before = found[query.limit - 1]["id"] if len(found) > query.limit else None
    return BroadcastHits(_hits(found[: query.limit], query), before)


def _narrowed(query: BroadcastQuery) -> tuple[str, dict[str, object]]:
    sql, given = ["g.kind = 'broadcast'"], dict[str, object](most=query.limit + 1)
    for name, condition, value in (
        ("mysis", _OF, query.mysis_id),
        ("since", "g.created_at >= :since", query.since),
        ("until", "g.created_at < :until", query.until),
        ("before", "g.id < :before", query.before_id),
    ):
        if value is not None:
            sql.append(condition)
            given[name] = value
    return " AND ".join(sql), given


def _are_many(connection: sqlite3.Connection) -> bool:
    return (
        connection.execute("SELECT 1 FROM message WHERE kind = 'broadcast' LIMIT 1 OFFSET ?", (FEW,)).fetchone()
        is not None
    )


def _rows(connection: sqlite3.Connection, sql: str, given: dict[str, object]) -> list[sqlite3.Row]:
    cursor = connection.cursor()
    cursor.row_factory = sqlite3.Row
    return cursor.execute(sql, given).fetchall()


def _hits(found: list[sqlite3.Row], query: BroadcastQuery) -> tuple[BroadcastHit, ...]:
    pattern = pattern_of(query.text, query.match, fold=query.fold)
    return tuple(
        BroadcastHit(
            message_id=row["id"],
            sender_kind=SenderKind(row["sender_kind"]),
            sender_id=row["sender_id"],
            sender="" if row["sender_kind"] == SenderKind.COMMANDER else row["sender_name"],
            created_at=row["created_at"],
            excerpt=around(row["content"], pattern, query.max_chars),
        )
        for row in found
    )
