"""Check that a file is a Zoea database, and open it for reading.

Synchronous and cheap to import, for commands like `zoea list` that only read.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from zoea.model.errors import StoreError, StoreForeign, StoreMissing, StoreMoved, StoreOutdated
from zoea.process.lock import read_holder
from zoea.store.sqlite_errors import translate_errors

APPLICATION_ID = int.from_bytes(b"ZOEA")
BEFORE_RELEASES_ID = int.from_bytes(b"Zoea")
"""That of databases from before release 0.1.0, whose numbers of schemas mean others."""
OLDEST_SQLITE = (3, 37)
MIGRATIONS = Path(__file__).parent / "migrations"
BUSY_SECONDS = 5.0
T = TypeVar("T")


def convert_row(kind: type[T], row: sqlite3.Row, /, **more: object) -> T:
    """Build a value from the columns named like its fields. Values in `more` come first."""
    return msgspec.convert({**dict(row), **more}, kind, strict=False)


def newest_version(folder: Path = MIGRATIONS) -> int:
    """Return the `user_version` this Zoea writes: the number of its last migration.

    That of Zoea's own folder is read once, because a process without a descriptor left cannot read it again.
    """
    return _own_version() if folder == MIGRATIONS else _last_number(folder)


@cache
def _own_version() -> int:
    return _last_number(MIGRATIONS)


def _last_number(folder: Path) -> int:
    return max((int(path.stem) for path in folder.glob("[0-9]*.sql")), default=0)


@cache
def require_sqlite(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> None:
    """Check once that SQLite is new enough and has FTS5 with trigrams.

    Raises:
        StoreError: It is too old or lacks FTS5 or the trigram tokenizer.
    """
    present = ".".join(map(str, version))
    if version < OLDEST_SQLITE:
        raise StoreError(
            f"Zoea needs SQLite 3.37 or later; this Python has {present}.",
            hint="Use a newer Python, or one linked to a newer SQLite.",
        )
    probe = sqlite3.connect(":memory:")
    try:
        probe.execute("CREATE VIRTUAL TABLE probe USING fts5(text, tokenize='trigram')")
    except sqlite3.Error as error:
        raise StoreError(
            f"Zoea needs SQLite with FTS5 and its trigram tokenizer; version {present} of this Python lacks them.",
            hint="Use a Python with a SQLite that was built with FTS5.",
        ) from error
    finally:
        probe.close()


def read_version(connection: sqlite3.Connection, path: Path, *, newest: int) -> int:
    """Return the schema version of an open database, 0 for an empty file; change nothing.

    Raises:
        StoreForeign: The file belongs to another program, has no schema that this Zoea knows, or is not a database.
    """
    is_own = not connection.in_transaction
    try:
        if is_own:  # else a file that another process begins to fill between two of these belongs to nobody
            connection.execute("BEGIN")
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        is_empty = application == 0 and version == 0
        if is_empty:  # only then, because a connection reads the whole schema for its first query of a table
            is_empty = connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_NOTADB:
            raise
        raise StoreForeign(f"{path} is not a database.", hint="Set ZOEA_DATA_DIR to another directory.") from error
    finally:
        if is_own and connection.in_transaction:
            connection.execute("ROLLBACK")
    if is_empty:
        return 0
    if application == BEFORE_RELEASES_ID:
        raise StoreForeign(
            f"{path} was written by a Zoea before release 0.1.0, which this one does not read; it was left as it is.",
            hint="Set ZOEA_DATA_DIR to another directory. To keep the conversations, write them with the Zoea that made"
            " the database (`zoea export --all --archived --format jsonl -o FILE`), and import that file here.",
        )
    if application != APPLICATION_ID:
        raise StoreForeign(f"{path} belongs to another program.", hint="Set ZOEA_DATA_DIR to another directory.")
    if version < 1:
        raise StoreForeign(
            f"{path} has schema {version}, which no Zoea writes; it was left as it is.",
            hint="Restore a backup, or set ZOEA_DATA_DIR to another directory.",
        )
    if version > newest:
        raise StoreForeign(
            f"{path} was written by a newer Zoea (schema {version}; this one knows {newest}); it was left as it is.",
            hint="Update Zoea, or set ZOEA_DATA_DIR to another directory.",
        )
    return version


def check_schema(path: Path, newest: int) -> None:
    """Check that a file is empty or has a schema of this Zoea. Changes neither it nor its log.

    Raises:
        sqlite3.Error: The file cannot be read.
        StoreForeign: See `read_version`.
    """
    log, index = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    is_still = not index.exists() and not (log.exists() and log.stat().st_size)  # needs no companion files
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_still else ''}"
    with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)) as connection:
        read_version(connection, path, newest=newest)


def open_reader(path: Path, *, any_thread: bool = False) -> sqlite3.Connection:
    """Open a read-only connection with `sqlite3.Row` rows; the caller closes it.

    Works beside a live writer and sees its committed data.

    Raises:
        StoreMissing: There is no database at `path`.
        StoreForeign: It belongs to another program or a newer Zoea.
        StoreError: It needs a migration, which only an owner runs, or cannot be read.
    """
    newest = newest_version()
    if not path.is_file():
        if read_holder(path.parent) is not None:
            raise StoreMoved(
                f"{path} does not exist, although a swarm has it open.",
                hint="`zoea list` shows the swarm. Put the file back, or end the swarm with `zoea stop --swarm`.",
            )
        raise StoreMissing(f"{path} does not exist.", hint="Run `zoea run` to start a swarm here.")
    with translate_errors():
        connection = connect_reader(path, any_thread=any_thread)
        try:
            version = read_version(connection, path, newest=newest)
            if not connection.execute("PRAGMA application_id").fetchone()[0]:
                # Its first command was killed before it had any table.
                raise StoreMissing(f"{path} is empty.", hint="Run `zoea run` to start a swarm here.")
            if version < newest:
                raise StoreOutdated(
                    f"{path} was written by an older Zoea (schema {version}; this one reads {newest}).",
                    hint="Run `zoea run` once: it keeps a copy and brings the database up to date.",
                )
        except BaseException:
            connection.close()
            raise
    return connection


def _reading_mode(path: Path) -> str:
    """Return the options of a read-only connection.

    SQLite creates companion files to read a database with a write-ahead log. In a directory where it
    cannot, and where no process has done so, the file is read as one that does not change.
    """
    log, index = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    if index.exists() or os.access(path.parent, os.W_OK):
        return "mode=ro"
    if log.exists() and log.stat().st_size:
        raise StoreError(
            f"{path.parent} is read-only, and {log.name} holds changes that are not in the database yet.",
            hint="Copy the directory to where you may write, and set ZOEA_DATA_DIR to the copy.",
        )
    return "mode=ro&immutable=1"


def connect_reader(path: Path, *, any_thread: bool = False) -> sqlite3.Connection:
    """Connect read-only without any check. `any_thread` allows use from several threads, one at a time.

    Raises:
        sqlite3.Error: The file cannot be opened.
        StoreError: It lies in a read-only directory and was not closed there.
    """
    uri = f"{path.absolute().as_uri()}?{_reading_mode(path)}"  # quotes special characters
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
