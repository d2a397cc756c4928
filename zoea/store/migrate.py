"""Bringing a database to the newest schema, one numbered file at a time.

Each migration is one transaction that also moves `user_version`, so a kill leaves
the database at one version or the next; a new one is made in a single transaction.
Before an existing database is touched, a copy is kept beside it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from zoea.model.errors import StoreError
from zoea.store.database_file import APPLICATION_ID, MIGRATIONS, newest_version, read_version
from zoea.store.search import fts_index
from zoea.store.writer_connection import transaction

Say = Callable[[str], None]
"""Told in a few words how far a migration is that takes a while."""

_SAID_EVERY = 20_000
_log = logging.getLogger(__name__)


def migrate(connection: sqlite3.Connection, path: Path, *, folder: Path = MIGRATIONS, say: Say = _log.info) -> None:
    """Run every migration newer than the database, in order.

    Raises sqlite3.Error, StoreForeign, or StoreError where a migration leaves a
    reference to a row that does not exist; the failing migration has changed nothing.
    """
    newest = newest_version(folder)
    version = read_version(connection, path, newest=newest)
    if version == newest:
        return
    numbers = range(version + 1, newest + 1)
    # A new database is there whole or not at all: whoever opens it meanwhile has no half-made one to copy.
    at_once = [[number] for number in numbers] if version > 0 else [list(numbers)]
    if version > 0:
        with transaction(connection):
            if (version := read_version(connection, path, newest=newest)) < newest:
                back_up(path, version)
    connection.execute("PRAGMA foreign_keys = OFF")
    for several in at_once:
        with transaction(connection):
            for number in several:
                if read_version(connection, path, newest=newest) < number:  # else another process was faster
                    _step(connection, number, folder / f"{number:04}.sql", say)
    connection.execute("PRAGMA foreign_keys = ON")


def back_up(path: Path, version: int) -> Path:
    """A whole copy of the database beside it, `NAME.schema-N.backup`, readable by its owner only.

    What others have not committed is not in it.
    """
    copy = path.with_name(f"{path.name}.schema-{version}.backup")
    unfinished = copy.with_name(f"{copy.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=0o600)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(unfinished)) as target:
        source.backup(target)  # one that writes itself cannot be copied
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    unfinished.replace(copy)
    return copy


def split_statements(sql: str) -> Iterator[str]:
    """The statements of a script, one by one; semicolons in strings, comments and triggers do not end one."""
    start = 0
    end = sql.find(";")
    while end >= 0:
        if sqlite3.complete_statement(sql[start : end + 1]):
            yield sql[start : end + 1]
            start = end + 1
        end = sql.find(";", end + 1)
    if sql[start:].strip():
        yield sql[start:]


def _index_memories(connection: sqlite3.Connection, say: Say) -> None:
    """What was stored before there were indexes is found as well."""

    def progress(done: int, total: int) -> None:
        if total > _SAID_EVERY and (done % _SAID_EVERY == 0 or done == total):
            say(f"Making memories searchable: {done:,} of {total:,}")

    fts_index.fill(connection, progress)


_AFTER = {MIGRATIONS / "0002.sql": _index_memories}
"""What a migration needs beyond its statements."""


def _step(connection: sqlite3.Connection, number: int, file: Path, say: Say) -> None:
    for statement in split_statements(file.read_text(encoding="utf-8")):
        connection.execute(statement)
    if file in _AFTER:
        _AFTER[file](connection, say)
    broken = connection.execute("PRAGMA foreign_key_check").fetchone()
    if broken is not None:
        raise StoreError(f"migration {number} leaves a row of {broken[0]!r} without the row it refers to")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {number}")
