"""Convert SQLite errors to Zoea's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from zoea.model.errors import StoreClosed, StoreConflict, StoreError, StoreForeign, StoreFull

SQLITE_ERRORS = (sqlite3.Error, MemoryError)
"""All errors SQLite raises; out of memory is not a `sqlite3.Error`."""

FREE_SPACE = "Free some space, or check the disk; a running swarm then goes on by itself."

_FULL = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def translate_error(error: Exception) -> StoreError:
    """Return the StoreError for a SQLite error, with the original as `__cause__`.

    Disk full and I/O errors become StoreFull, violated constraints StoreConflict, a file that is not a
    database StoreForeign, an interrupted query StoreClosed, others StoreError.
    """
    translated = _convert(error)
    translated.__cause__ = error
    return translated


def translate_write_error(error: Exception) -> StoreError:
    """Return the StoreError for an error of the writer of an open database.

    A file that it cannot open is a journal or a temporary file, so that writing may work again later.
    """
    if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_CANTOPEN:
        return translate_error(error)
    translated = StoreFull(
        str(error), hint="Zoea may have too many files open (`ulimit -n`); a running swarm tries again by itself."
    )
    translated.__cause__ = error
    return translated


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise any SQLite error of the block as a StoreError."""
    try:
        yield
    except SQLITE_ERRORS as error:
        raise translate_error(error) from error


def _convert(error: Exception) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code; 0 if missing
    what = str(error) or type(error).__name__
    if code in _FULL:
        return StoreFull(what, hint=FREE_SPACE)
    if code in _BUSY:
        return StoreError(what, hint="Another process holds the database. End that process, then try again.")
    match code:
        case sqlite3.SQLITE_CONSTRAINT:
            return StoreConflict(what)
        case sqlite3.SQLITE_INTERRUPT:  # without a cancellation only closing interrupts
            return StoreClosed("the store was closed while this ran")
        case sqlite3.SQLITE_NOTADB:
            return StoreForeign(what, hint="Set ZOEA_DATA_DIR to another directory.")
        case sqlite3.SQLITE_CORRUPT:
            return StoreError(
                what, hint="The file is damaged. Restore a backup, or move it away to start with a new one."
            )
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_READONLY:
            return StoreError(what, hint="Check that the data directory exists and belongs to you.")
        case _:
            return StoreError(what)
