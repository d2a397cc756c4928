"""A writer's connection to a database in memory, of the newest schema: for ops, without threads or disk."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from zoea.store.migrate import migrate
from zoea.store.writer_connection import WriterConnection

NOW = 1_800_000_000_000_000


def memory_store() -> WriterConnection:
    """Empty; the caller closes it."""
    conn = sqlite3.connect(":memory:", isolation_level=None, factory=WriterConnection)
    migrate(conn, Path("memory.db"))
    conn.execute("PRAGMA foreign_keys = ON")
    conn.clock_now = lambda: NOW
    return conn
