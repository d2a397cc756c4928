"""Fill, merge, check and rebuild the search indexes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from zoea.store.search.fts_terms import DOCUMENTS, quote_term
from zoea.store.writer_connection import transaction

INDEXES = ("memory_exact", "call_exact", "memory_words", "message_exact", "message_words")

Progress = Callable[[int, int], None]
"""Called with the number of memories done and the total."""

BATCH = 1_000
_CALL = "k.name || '(' || k.arguments || ')'"
_CALL_DOCUMENT = f"k.memory_id * {DOCUMENTS} + 1 + min(k.position, {DOCUMENTS - 2})"
_THROUGH = "SELECT max(id), count(*) FROM (SELECT id FROM memory WHERE id > ? ORDER BY id LIMIT ?)"
_FILL = (
    "INSERT INTO memory_exact(rowid, owner, content, reasoning)"
    " SELECT id, owner, content, reasoning FROM memory WHERE id > :after AND id <= :through ORDER BY id",
    f"INSERT INTO call_exact(rowid, owner, content) SELECT k.id, m.owner, {_CALL}"
    " FROM memory m CROSS JOIN tool_call k ON k.memory_id = m.id WHERE m.id > :after AND m.id <= :through"
    " ORDER BY k.id",
    "INSERT INTO memory_words(rowid, owner, content, reasoning)"
    f" SELECT id * {DOCUMENTS} AS document, owner, content, reasoning FROM memory WHERE id > :after AND id <= :through"
    f" UNION ALL SELECT {_CALL_DOCUMENT}, m.owner, {_CALL}, ''"
    " FROM memory m CROSS JOIN tool_call k ON k.memory_id = m.id WHERE m.id > :after AND m.id <= :through"
    " ORDER BY document",
)

_ANY_NOTED = "SELECT 1 FROM unindexed LIMIT 1"
_MEMORIES = "FROM unindexed u CROSS JOIN memory m ON m.id = u.id WHERE u.kind = 'memory' ORDER BY u.id"
_CALLS = (
    "FROM unindexed u CROSS JOIN tool_call k ON k.id = u.id CROSS JOIN memory m ON m.id = k.memory_id"
    " WHERE u.kind = 'call' ORDER BY u.id"
)
_BROADCASTS = "FROM unindexed u CROSS JOIN broadcast b ON b.id = u.id WHERE u.kind = 'broadcast' ORDER BY u.id"
_CATCH_UP: tuple[str, ...] = (
    f"INSERT INTO memory_exact(rowid, owner, content, reasoning)"
    f" SELECT m.id, m.owner, m.content, m.reasoning {_MEMORIES}",
    f"INSERT INTO memory_words(rowid, owner, content, reasoning)"
    f" SELECT m.id * {DOCUMENTS}, m.owner, m.content, m.reasoning {_MEMORIES}",
    f"INSERT INTO call_exact(rowid, owner, content) SELECT k.id, m.owner, {_CALL} {_CALLS}",
    f"INSERT INTO memory_words(rowid, owner, content, reasoning)"
    f" SELECT {_CALL_DOCUMENT}, m.owner, {_CALL}, '' {_CALLS}",
    f"INSERT INTO message_exact(rowid, content) SELECT b.id, b.content {_BROADCASTS}",
    f"INSERT INTO message_words(rowid, content) SELECT b.id, b.content {_BROADCASTS}",
    "DELETE FROM unindexed",
)


def catch_up(connection: sqlite3.Connection) -> None:
    """Index rows written since the last call, inside the caller's transaction.

    The writer calls it before each COMMIT. After a sqlite3.Error the transaction must be rolled back.
    """
    if connection.execute(_ANY_NOTED).fetchone() is not None:
        for statement in _CATCH_UP:
            connection.execute(statement)


def index_pending(connection: sqlite3.Connection) -> None:
    """Index rows written by other connections than the writer's, in a transaction of its own."""
    if connection.execute(_ANY_NOTED).fetchone() is not None:
        with transaction(connection):
            catch_up(connection)


def fill(connection: sqlite3.Connection, progress: Progress) -> None:
    """Index every stored row in id order, inside the caller's transaction. The indexes must be empty."""
    total = connection.execute("SELECT count(*) FROM memory").fetchone()[0]
    after = done = 0
    while True:
        through, count = connection.execute(_THROUGH, (after, BATCH)).fetchone()
        if through is None:
            break
        for statement in _FILL:
            connection.execute(statement, {"after": after, "through": through})
        after, done = through, done + count
        progress(done, total)
    for index in ("message_exact", "message_words"):
        connection.execute(f"INSERT INTO {index}(rowid, content) SELECT id, content FROM broadcast ORDER BY id")
    connection.execute("DELETE FROM unindexed")


def clear(connection: sqlite3.Connection) -> None:
    """Empty the indexes, inside the caller's transaction."""
    for index in INDEXES:
        connection.execute(f"INSERT INTO {index}({index}) VALUES ('delete-all')")


def rebuild(connection: sqlite3.Connection, progress: Progress) -> None:
    """Rebuild the indexes from the stored rows in one transaction."""
    with transaction(connection):
        clear(connection)
        fill(connection, progress)


def merge(connection: sqlite3.Connection, pages: int, *, whole: bool = False) -> bool:
    """Merge up to `pages` pages of small index segments; return False when done.

    `whole` starts merging everything into one segment without deleted rows, as `optimize` does at once.
    """
    merged = False
    for index in INDEXES:
        before = connection.total_changes
        connection.execute(f"INSERT INTO {index}({index}, rank) VALUES ('merge', ?)", (-pages if whole else pages,))
        merged |= connection.total_changes - before > 1  # the statement counts as one change
    return merged


def optimize(connection: sqlite3.Connection) -> None:
    """Merge each index into one segment, which also erases removed text from the file."""
    for index in INDEXES:
        connection.execute(f"INSERT INTO {index}({index}) VALUES ('optimize')")


def find_damaged(connection: sqlite3.Connection) -> list[str]:
    """Return the indexes that do not match their rows.

    Reads every row and changes nothing, but needs a connection that may write.
    """
    damaged = []
    for index in INDEXES:
        try:
            connection.execute(f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)")
        except sqlite3.DatabaseError as problem:
            if problem.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            damaged.append(index)
    return damaged


def count_missing(connection: sqlite3.Connection, count: int, seed: int) -> int:
    """Return how many of `count` evenly spaced memories are missing from the exact index. Reads only."""
    least, newest = connection.execute("SELECT coalesce(min(id), 0), coalesce(max(id), 0) FROM memory").fetchone()
    step = max(1, (newest - least + 1) // max(1, count))
    lost = 0
    for start in range(least + seed % step, newest + 1, step):
        row = connection.execute(
            "SELECT id, content FROM memory WHERE id >= ? AND length(content) >= 3 ORDER BY id LIMIT 1", (start,)
        ).fetchone()
        if row is not None:
            at = seed % (len(row[1]) - 2)
            sampled = connection.execute(
                "SELECT 1 FROM memory_exact WHERE memory_exact MATCH ? AND rowid = ?",
                (quote_term(row[1][at : at + 3]), row[0]),
            ).fetchone()
            lost += sampled is None
    return lost
