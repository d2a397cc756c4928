"""What makes a file a Zoea database, and a SQLite good enough to hold it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from zoea.model.errors import StoreError, StoreForeign

APPLICATION_ID = 1517249889
OLDEST_SQLITE = (3, 37)
MIGRATIONS = Path(__file__).parent / "migrations"


def newest_version(folder: Path = MIGRATIONS) -> int:
    """The `user_version` that this Zoea writes: the number of its last migration."""
    return max((int(path.stem) for path in folder.glob("[0-9]*.sql")), default=0)


def require_sqlite(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> None:
    """Raises StoreError where SQLite is too old, or was built without full-text search and trigrams."""
    found = ".".join(map(str, version))
    if version < OLDEST_SQLITE:
        raise StoreError(
            f"Zoea needs SQLite 3.37 or later; this Python has {found}.",
            hint="Use a newer Python, or one linked to a newer SQLite.",
        )
    probe = sqlite3.connect(":memory:")
    try:
        probe.execute("CREATE VIRTUAL TABLE probe USING fts5(text, tokenize='trigram')")
    except sqlite3.Error as error:
        raise StoreError(
            f"Zoea needs SQLite with FTS5 and its trigram tokenizer; version {found} of this Python has them not.",
            hint="Use a Python whose SQLite was built with FTS5.",
        ) from error
    finally:
        probe.close()


def read_version(connection: sqlite3.Connection, path: Path, *, newest: int) -> int:
    """The schema version of an open database, 0 for an empty file.

    Changes nothing in the file.

    Raises:
        StoreForeign: Another program's database, no database, or a newer Zoea's.
    """
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_NOTADB:
            raise
        raise StoreForeign(f"{path} is not a database.", hint="Name another data directory.") from error
    if application == 0 and version == 0 and tables == 0:
        return 0
    if application != APPLICATION_ID:
        raise StoreForeign(f"{path} belongs to another program.", hint="Name another data directory.")
    if version > newest:
        raise StoreForeign(
            f"{path} was written by a newer Zoea (schema {version}; this one knows {newest}).",
            hint="Update Zoea, or name another data directory.",
        )
    return version
