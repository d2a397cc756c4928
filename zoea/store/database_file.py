"""What makes a file a Zoea database, and a SQLite good enough to hold it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from zoea.model.errors import StoreError, StoreForeign, StoreMissing
from zoea.store.sqlite_errors import translate_errors

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


# For commands like `zoea list` where no owner runs, and for reading stored things
# beside a running one.

BUSY_SECONDS = 5.0


def open_reader(path: Path) -> sqlite3.Connection:
    """A read-only connection whose rows are `sqlite3.Row`; the caller closes it.

    Works beside a live writer and sees what it has committed.

    Raises:
        StoreMissing: There is no database at `path`.
        StoreForeign: It is not Zoea's, or a newer Zoea's.
        StoreError: An older Zoea's, which only an owner brings up to date; or it cannot be read.
    """
    newest = newest_version()
    if not path.is_file():
        raise StoreMissing(f"{path} does not exist.", hint="Run `zoea run` to start a swarm here.")
    with translate_errors():
        connection = connect_reader(path)
        try:
            version = read_version(connection, path, newest=newest)
            if version < newest:
                raise StoreError(
                    f"{path} was written by an older Zoea (schema {version}; this one reads {newest}).",
                    hint="Run `zoea run` once: it keeps a copy and brings the database up to date.",
                )
        except BaseException:
            connection.close()
            raise
    return connection


def connect_reader(path: Path, *, any_thread: bool = False) -> sqlite3.Connection:
    """A connection that cannot write, for one thread or for one after another; nothing is checked.

    Raises sqlite3.Error.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro"  # quotes whatever the path holds
    connection = sqlite3.connect(
        uri,
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        cached_statements=256,
        check_same_thread=not any_thread,
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA query_only = ON")
    return connection
