"""Filling the search indexes from the rows they are made of: at a migration, and where they are rebuilt."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

DOCUMENTS = 4096
"""Row ids of the ranked index for each memory: the first is itself, those after it are its calls."""
INDEXES = ("memory_exact", "call_exact", "memory_words", "message_exact", "message_words")

Progress = Callable[[int, int], None]
"""Told how many memories are done, and how many there are."""

_BATCH = 1_000
_CALL = "k.name || '(' || k.arguments || ')'"
_THROUGH = "SELECT max(id), count(*) FROM (SELECT id FROM memory WHERE id > ? ORDER BY id LIMIT ?)"
_FILL = (
    "INSERT INTO memory_exact(rowid, owner, content, reasoning)"
    " SELECT id, owner, content, reasoning FROM memory WHERE id > :after AND id <= :through ORDER BY id",
    f"INSERT INTO call_exact(rowid, owner, content) SELECT k.id, m.owner, {_CALL}"
    " FROM memory m CROSS JOIN tool_call k ON k.memory_id = m.id WHERE m.id > :after AND m.id <= :through"
    " ORDER BY k.id",
    "INSERT INTO memory_words(rowid, owner, content, reasoning)"
    f" SELECT id * {DOCUMENTS} AS document, owner, content, reasoning FROM memory WHERE id > :after AND id <= :through"
    f" UNION ALL SELECT k.memory_id * {DOCUMENTS} + 1 + min(k.position, {DOCUMENTS - 2}), m.owner, {_CALL}, ''"
    " FROM memory m CROSS JOIN tool_call k ON k.memory_id = m.id WHERE m.id > :after AND m.id <= :through"
    " ORDER BY document",
)


def fill(connection: sqlite3.Connection, progress: Progress) -> None:
    """Index every stored row, in a transaction of the caller's; the indexes are empty before.

    In the order of the rows' ids, which is what the indexes are filled fastest in.
    """
    total = connection.execute("SELECT count(*) FROM memory").fetchone()[0]
    after = done = 0
    while True:
        through, count = connection.execute(_THROUGH, (after, _BATCH)).fetchone()
        if through is None:
            break
        for statement in _FILL:
            connection.execute(statement, {"after": after, "through": through})
        after, done = through, done + count
        progress(done, total)
    for index in ("message_exact", "message_words"):
        connection.execute(f"INSERT INTO {index}(rowid, content) SELECT id, content FROM broadcast ORDER BY id")


def empty(connection: sqlite3.Connection) -> None:
    """Take everything out of the indexes, in a transaction of the caller's."""
    for index in INDEXES:
        connection.execute(f"INSERT INTO {index}({index}) VALUES ('delete-all')")
