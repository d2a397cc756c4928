"""Reads how a turn ended and what it answered."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from zoea.store.database_file import connect_reader
from zoea.store.sqlite_errors import translate_errors

_ANSWER = """
SELECT t.outcome, (SELECT m.content FROM memory m WHERE m.turn_id = t.id AND m.role = 'assistant' AND m.partial = 0
  AND m.content <> '' ORDER BY m.seq DESC LIMIT 1)
FROM turn t WHERE
"""


class NewestAnswer(Struct, frozen=True):
    """The outcome of a turn, empty while it is open, and its last answer."""

    outcome: str = ""
    text: str = ""


def read_newest_answer(database: Path, mysis_id: int) -> NewestAnswer:
    """Read the newest turn of a mysis. Raises StoreError."""
    with closing(connect_reader(database)) as conn, translate_errors():
        row = conn.execute(f"{_ANSWER} t.mysis_id = ? ORDER BY t.id DESC LIMIT 1", (mysis_id,)).fetchone()
    return _answer(row)


def read_turn_answer(database: Path, turn_id: int) -> NewestAnswer:
    """Read a turn by the id of its row. Raises StoreError."""
    with closing(connect_reader(database)) as conn, translate_errors():
        return _answer(conn.execute(f"{_ANSWER} t.id = ?", (turn_id,)).fetchone())


def _answer(row: sqlite3.Row | None) -> NewestAnswer:
    return NewestAnswer() if row is None else NewestAnswer(row[0] or "", row[1] or "")
