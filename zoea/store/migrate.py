"""Bring a database to the newest schema, one numbered file at a time.

Each migration is one transaction that also sets `user_version`, so a kill leaves the old or the
new version. A new database is made in one transaction. An existing one is backed up first.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from zoea.model.errors import StoreError
from zoea.settings.private_file import open_private
from zoea.store.database_file import APPLICATION_ID, MIGRATIONS, newest_version, read_version
from zoea.store.writer_connection import transaction


def migrate(connection: sqlite3.Connection, path: Path, *, folder: Path = MIGRATIONS) -> None:
    """Run every migration newer than the database, in order.

    Raises:
        sqlite3.Error: A statement failed; that migration changed nothing.
        StoreForeign: The database belongs to another program or a newer Zoea.
        StoreError: A migration leaves a reference to a missing row.
    """
    newest = newest_version(folder)
    version = read_version(connection, path, newest=newest)
    if version == newest:
        return
    numbers = range(version + 1, newest + 1)
    # One transaction for a new database, so that no other process sees or copies a partial one.
    at_once = [[number] for number in numbers] if version > 0 else [list(numbers)]
    if version > 0:
        with transaction(connection):
            if (version := read_version(connection, path, newest=newest)) < newest:
                back_up(path, version)
    connection.execute("PRAGMA foreign_keys = OFF")
    for several in at_once:
        with transaction(connection):
            for number in several:
                if read_version(connection, path, newest=newest) < number:  # else another process ran it
                    _run_migration(connection, number, folder / f"{number:04}.sql")
    connection.execute("PRAGMA foreign_keys = ON")


def back_up(path: Path, version: int) -> Path:
    """Copy the committed database to `NAME.schema-N.backup` beside it, mode 0600."""
    copy = path.with_name(f"{path.name}.schema-{version}.backup")
    unfinished = copy.with_name(f"{copy.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    os.close(open_private(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(unfinished)) as target:
        source.backup(target)  # needs a connection without an open transaction
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    unfinished.replace(copy)
    return copy


def split_statements(sql: str) -> Iterator[str]:
    """Yield the statements of a script; semicolons in strings, comments and triggers do not split."""
    start = 0
    end = sql.find(";")
    while end >= 0:
        if sqlite3.complete_statement(sql[start : end + 1]):
            yield sql[start : end + 1]
            start = end + 1
        end = sql.find(";", end + 1)
    if sql[start:].strip():
        yield sql[start:]


def _run_migration(connection: sqlite3.Connection, number: int, file: Path) -> None:
    for statement in split_statements(file.read_text(encoding="utf-8")):
        connection.execute(statement)
    broken = connection.execute("PRAGMA foreign_key_check").fetchone()
    if broken is not None:
        raise StoreError(f"migration {number} leaves a row of {broken[0]!r} without the row it refers to")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {number}")
