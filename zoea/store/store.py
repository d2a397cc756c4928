"""The database of one workspace, as everything above it sees it."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from zoea.model.errors import StoreClosed, StoreError
from zoea.model.values import Event
from zoea.store import blobs
from zoea.store.database_file import BUSY_SECONDS, newest_version, open_reader, read_version, require_sqlite
from zoea.store.migrate import migrate
from zoea.store.readers import ReaderPool, SearchReader
from zoea.store.search.fts_index import catch_up, index_pending
from zoea.store.sqlite_errors import translate_errors
from zoea.store.writer import Writer, WriterStats
from zoea.store.writer_connection import WriterConnection

READERS = 3
CLOSE_SECONDS = 5.0
_BUSY_PAUSE_SECONDS = 0.01
_PROBE_CHARS = 64 * 1024

T = TypeVar("T")


class Store:
    """Everything Zoea remembers. Open it with `Store.open`, and close it.

    Attributes:
        path: The database file.
        stats: What the writer has done so far.
        on_events: Called on the loop with the events of each commit, in order, once the
            futures of that commit are resolved.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stats = WriterStats()
        self.on_events: Callable[[list[Event]], None] | None = None
        self._readers = ReaderPool(path)
        self._writer: Writer | None = None
        self._closed = False
        self._closing = asyncio.Lock()

    @classmethod
    async def open(cls, path: Path, *, clock_now: Callable[[], int], read_only: bool = False) -> Self:
        """Open the database at `path`, made and brought to the newest schema where needed.

        A new data directory is for its owner only (0700), as is the file (0600). With
        `read_only` nothing is made or changed, and writing raises.

        Args:
            clock_now: The time for ops, µs UTC; called in the writer thread.

        Raises:
            StoreForeign: The file is another program's, or a newer Zoea's.
            StoreMissing: With `read_only`, there is no database.
            StoreError: SQLite is too old, or the file cannot be opened.
        """
        require_sqlite()
        store = cls(path)
        try:
            if read_only:
                open_reader(path).close()
            else:
                store._writer = Writer(partial(_connect, path, clock_now), store.stats, store._publish, catch_up)
                await store._writer.open()
            await store._readers.open(READERS)
        except BaseException:
            with suppress(StoreError):  # what failed first is what matters
                await store.close(CLOSE_SECONDS)
            raise
        return store

    async def write(self, op: Callable[[WriterConnection], T]) -> T:
        """Run `op` in the writer thread; returns what it returned, after the COMMIT that holds it.

        `op` is all that must be atomic. Where it raises, nothing of it is stored, ops
        beside it are not touched, and its error comes here. It may be run twice (after a
        disk error), so it does nothing but read and write through its connection. A
        cursor it returns comes back closed.

        A caller that is cancelled while waiting does not know: the op still runs and may
        be committed already.

        Raises:
            StoreFull: Disk full or I/O error; nothing was stored.
            StoreConflict: A constraint refused a row.
            StoreClosed: The store is closed.
            StoreError: Anything else SQLite says.
        """
        if self._closed:
            raise StoreClosed("nothing can be written any more")
        if self._writer is None:
            raise StoreError("this database was opened for reading only")
        result: T = await self._writer.submit(op)
        return result

    async def read(self, sql: str, params: Iterable[Any] = ()) -> list[sqlite3.Row]:
        """All rows of a short query; it sees every write acknowledged before it was asked.

        Raises StoreError, and StoreClosed after `close`.
        """
        if self._closed:
            raise StoreClosed("nothing can be read any more")
        return await self._readers.read(sql, params)

    @asynccontextmanager
    async def search_reader(self) -> AsyncIterator[SearchReader]:
        """A connection of one's own for long queries, which end when their caller is cancelled."""
        if self._closed:
            raise StoreClosed("nothing can be searched any more")
        async with self._readers.searcher() as reader:
            yield reader

    async def blob(self, blob_id: int) -> bytes:
        """The bytes of a blob; see `zoea.store.blobs`."""
        rows = await self.read(blobs.SELECT, (blob_id,))
        return await asyncio.to_thread(blobs.unpack_blob, self.path.parent, blob_id, rows)

    async def probe(self) -> None:
        """Write, and take away again, enough to know that writing works. Raises StoreFull while it does not."""
        await self.write(_probe_in)
        await self.write(_probe_out)

    async def close(self, deadline_s: float = CLOSE_SECONDS) -> None:
        """Finish what was queued, move the write-ahead log into the file, end all threads.

        Raises StoreError where the writer does not end by the deadline (seconds).
        """
        self._closed = True
        async with self._closing:
            await self._readers.close()
            writer, self._writer = self._writer, None
            if writer is not None:
                await writer.close(deadline_s)

    def _publish(self, events: list[Event]) -> None:
        if self.on_events is not None:
            self.on_events(events)


def _connect(path: Path, clock_now: Callable[[], int]) -> WriterConnection:
    """The writer's connection, to a database of the newest schema."""
    with translate_errors():
        _make(path)
        newest = newest_version()
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, cached_statements=256, factory=WriterConnection
        )
        try:
            read_version(connection, path, newest=newest)  # before anything that changes the file
            _make_private(path)
            _write_ahead(connection, path)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA journal_size_limit = 67108864")
            migrate(connection, path)
            connection.execute("PRAGMA foreign_keys = ON")
            index_pending(connection)
        except BaseException:
            connection.close()
            raise
    connection.clock_now = clock_now
    return connection


def _write_ahead(connection: WriterConnection, path: Path) -> None:
    """Set the journal mode; SQLite does not wait here for another process that does the same, so this does."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                raise
            time.sleep(_BUSY_PAUSE_SECONDS)
        else:
            break
    if mode != "wal":
        raise StoreError(
            f"{path} cannot be written ahead (journal mode {mode}).", hint="Name a data directory on a local disk."
        )


def _make(path: Path) -> None:
    """The file, where there is none, and its directory, for their owner only.

    An existing directory keeps its mode: it may be anyone's.
    """
    try:
        if not path.parent.exists():
            path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        # Never opened here again: closing a descriptor would drop this process's locks on the file.
        path.touch(mode=0o600)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}", hint="Check that the data directory belongs to you.") from error


def _make_private(path: Path) -> None:
    """Take the file from other users' eyes; SQLite gives the companions it makes the same mode."""
    for file in (path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))):
        try:
            file.chmod(0o600)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StoreError(f"{file}: {error.strerror}", hint="The database must belong to you.") from error


def _probe_in(connection: WriterConnection) -> None:
    connection.execute(
        "INSERT INTO setting(key, value, updated_at) VALUES ('probe', ?, ?)"
        " ON CONFLICT(key) DO UPDATE SET value = excluded.value",
        (f'"{"." * _PROBE_CHARS}"', connection.now()),
    )


def _probe_out(connection: WriterConnection) -> None:
    connection.execute("DELETE FROM setting WHERE key = 'probe'")
