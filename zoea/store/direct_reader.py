"""Reading the database without a swarm: one synchronous connection, and nothing heavy imported.

For commands like `zoea list` where no owner runs, and for reading stored things
beside a running one.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from zoea.model.errors import StoreError, StoreMissing
from zoea.store.file_identity import newest_version, read_version
from zoea.store.sqlite_errors import translated

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
    with translated():
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
