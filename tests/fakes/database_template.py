"""Copies new databases from one that the real migrations made. This takes a tenth of their time."""

from __future__ import annotations

import sqlite3
import threading
from functools import cache
from pathlib import Path

from zoea.store.migrate import migrate

_one_at_a_time = threading.Lock()


def migrate_by_copy(connection: sqlite3.Connection, path: Path) -> None:
    """Copy the template into a database without tables; run the migrations of any other."""
    connection.execute("PRAGMA synchronous = OFF")  # a wait for the disk proves nothing where the process goes on
    if connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is not None:
        migrate(connection, path)
        return
    with _one_at_a_time:
        _template().backup(connection)


@cache
def _template() -> sqlite3.Connection:
    template = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    migrate(template, Path("template.db"))
    return template
