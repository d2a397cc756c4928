"""The database of one workspace: open, write, read, search, close."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from zoea.model.errors import StoreClosed, StoreError, StoreMoved
from zoea.model.values import Event
from zoea.process.open_files import OpenFiles
from zoea.settings.paths import make_private_folder
from zoea.store import blobs
from zoea.store.database_file import BUSY_SECONDS, check_schema, newest_version, open_reader, require_sqlite
from zoea.store.memory_reader import MemoryReader
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
    """The database. Open it with `Store.open`, and close it.

    Attributes:
        on_events: Called on the loop with the events of each commit, in order, after the commit's
            futures are resolved.
        on_moved: Called on the loop with the error where the database was moved during a commit. Its futures are
            resolved once it is back, because it is not known before whether the commit is stored.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stats = WriterStats()
        self.on_events: Callable[[list[Event]], None] | None = None
        self.on_moved: Callable[[StoreMoved], object] | None = None
        self._readers = ReaderPool(path)
        self._writer: Writer | None = None
        self._closed = False
        self._closing = asyncio.Lock()

    @classmethod
    async def open(cls, path: Path, *, clock_now: Callable[[], int], read_only: bool = False) -> Self:
        """Open the database at `path`; create and migrate it if needed.

        A new data directory gets mode 0700, the file 0600. With `read_only` nothing is created or
        changed, and writing raises.

        Args:
            clock_now: Returns the time for ops, µs UTC; called in the writer thread.

        Raises:
            StoreForeign: The file belongs to another program or a newer Zoea.
            StoreMissing: With `read_only`, there is no database.
            StoreError: SQLite is too old, or the file cannot be opened.
        """
        require_sqlite()
        store = cls(path)
        try:
            if read_only:
                open_reader(path).close()
            else:
                store._writer = Writer(
                    partial(_connect, path, clock_now), store.stats, store._publish, store._report_moved, catch_up
                )
                await store._writer.open()
            await store._readers.open(READERS)
        except BaseException:
            with suppress(StoreError):  # the first error is the one to report
                await store.close(CLOSE_SECONDS)
            raise
        return store

    async def write(self, op: Callable[[WriterConnection], T], *, urgent: bool = False, is_synced: bool = True) -> T:
        """Run `op` in the writer thread, and return its result after the COMMIT.

        `op` is atomic: if it raises, nothing of it is stored, other ops are unaffected, and its error is
        raised here. It may run twice (after a disk error), so it must only read and write through its
        connection. A cursor it returns is closed.

        If the caller is cancelled while waiting, the op still runs and may be committed.
        An `urgent` op, of what a person did, runs before the others that wait. One that is not `is_synced` survives a
        kill, but a loss of power only after the next op that is: it must be one whose loss the next start makes good.

        Raises:
            StoreFull: Disk full or I/O error, or the database was moved; nothing was stored.
            StoreConflict: A constraint refused a row.
            StoreClosed: The store is closed.
            StoreError: Any other SQLite error.
        """
        result: T = await self.submit(op, urgent=urgent, is_synced=is_synced)
        return result

    def submit(
        self, op: Callable[[WriterConnection], T], *, urgent: bool = False, is_synced: bool = True
    ) -> asyncio.Future[T]:
        """Queue `op` at once, behind all ops of its urgency submitted before. See `write`."""
        if self._closed:
            raise StoreClosed("nothing can be written any more")
        if self._writer is None:
            raise StoreError("this database was opened for reading only")
        return self._writer.submit(op, urgent=urgent, is_synced=is_synced)

    async def read(self, sql: str, params: Iterable[Any] = ()) -> list[sqlite3.Row]:
        """Return all rows of a short query, including every write acknowledged before.

        Raises:
            StoreError: The query failed.
            StoreClosed: The store is closed.
        """
        if self._closed:
            raise StoreClosed("nothing can be read any more")
        return await self._readers.read(sql, params)

    @asynccontextmanager
    async def search_reader(self) -> AsyncIterator[SearchReader]:
        """Lend a connection for long queries, which end when their caller is cancelled."""
        if self._closed:
            raise StoreClosed("nothing can be searched any more")
        async with self._readers.search_pool.reader() as reader:
            yield reader

    def memory_reader(self) -> MemoryReader:
        """Make a reader of memories on the connections for long queries."""
        return MemoryReader(self._readers.search_pool)

    async def blob(self, blob_id: int) -> bytes:
        """Return the bytes of a blob; see `zoea.store.blobs`."""
        rows = await self.read(blobs.SELECT, (blob_id,))
        return await asyncio.to_thread(blobs.unpack_blob, self.path.parent, blob_id, rows)

    async def probe(self) -> None:
        """Write and delete 64 kB to test that writing works.

        Raises:
            StoreFull: It does not.
        """
        await self.write(_insert_probe)
        await self.write(lambda connection: connection.execute("DELETE FROM setting WHERE key = 'probe'"))

    async def close(self, deadline_s: float = CLOSE_SECONDS) -> None:
        """Finish queued ops, move the write-ahead log into the file, and end all threads.

        Raises:
            StoreError: The writer did not end within `deadline_s` seconds.
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

    def _report_moved(self, error: StoreMoved) -> None:
        if self.on_moved is not None:
            self.on_moved(error)


def _connect(path: Path, clock_now: Callable[[], int]) -> WriterConnection:
    """Return the writer's connection to a database of the newest schema."""
    with translate_errors():
        _create_file(path)
        newest = newest_version()
        check_schema(path, newest)
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, cached_statements=256, factory=WriterConnection
        )
        try:
            _restrict_mode(path)
            _enable_wal(connection, path)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA journal_size_limit = 67108864")
            migrate(connection, path)
            connection.execute("PRAGMA foreign_keys = ON")
            index_pending(connection)
        except BaseException:
            connection.close()
            raise
    connection.clock_now = clock_now
    connection.check_files = OpenFiles(path).check
    return connection


def _enable_wal(connection: WriterConnection, path: Path) -> None:
    """Set the journal mode, with retries because SQLite does not wait for another process here."""
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
            f"{path} cannot have a write-ahead log (journal mode {mode}).",
            hint="Set ZOEA_DATA_DIR to a directory on a local disk.",
        )


def _create_file(path: Path) -> None:
    """Create the file and its directory for their owner only.

    An existing directory keeps its mode because others may use it.
    """
    for file in (*_files(path), path.with_name(blobs.FOLDER)):
        if file.is_symlink():
            raise StoreError(
                f"{file} is a symbolic link, which Zoea does not follow.",
                hint="Move the file itself here, or set ZOEA_DATA_DIR to the directory that holds it.",
            )
        if (
            file.name != blobs.FOLDER and file.exists() and not file.is_file()
        ):  # SQLite would wait for the writer of a pipe
            raise StoreError(f"{file} is not a file.", hint="Move it away, or set ZOEA_DATA_DIR to another directory.")
    try:
        if not path.parent.exists():
            make_private_folder(path.parent)
        # Not opened again, because closing a descriptor would drop this process's locks on the file.
        path.touch(mode=0o600)
        names = path.stat().st_nlink
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}", hint="Check that the data directory belongs to you.") from error
    if names > 1:  # each name has its own log and locks, so that two owners would damage the database
        raise StoreError(
            f"{path} has {names} names (hard links), under which others could open it.",
            hint="Make it a file of its own: copy it, then rename the copy to its name.",
        )


def _files(path: Path) -> tuple[Path, ...]:
    """Return the database file and its companions."""
    return (path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm")))


def _restrict_mode(path: Path) -> None:
    """Remove access for other users; SQLite gives its companion files the same mode."""
    for file in _files(path):
        try:
            file.chmod(0o600)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StoreError(f"{file}: {error.strerror}", hint="The database must belong to you.") from error


def _insert_probe(connection: WriterConnection) -> None:
    connection.execute(
        "INSERT INTO setting(key, value, updated_at) VALUES ('probe', ?, ?)"
        " ON CONFLICT(key) DO UPDATE SET value = excluded.value",
        (f'"{"." * _PROBE_CHARS}"', connection.now()),
    )
