"""Read beside the writer: a few connections for short queries, and a pool for searches.

Each query runs in a reader's thread, fetches all rows and keeps no cursor open, so it sees every
write acknowledged before it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite

from zoea.model.errors import StoreClosed
from zoea.store.database_file import connect_reader, open_reader
from zoea.store.sqlite_errors import translate_errors

_INTERRUPT_S = 0.01

T = TypeVar("T")


class SearchReader:
    """One connection of a pool, for one caller.

    A deadline is a cancellation: `async with asyncio.timeout(2): await reader.read(...)`.
    """

    def __init__(self, connection: sqlite3.Connection, pool: SearchPool) -> None:
        self._connection = connection
        self._pool = pool

    async def read(self, sql: str, params: Iterable[Any] = ()) -> list[sqlite3.Row]:
        """Fetch all rows of a query; see `run`."""
        values = params if isinstance(params, dict) else tuple(params)
        return await self.run(lambda connection: list(connection.execute(sql, values)))

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` with the connection in a thread.

        When cancelled, interrupts the query and returns once it has ended. Raises StoreError, and what `work` raises.
        """
        if self._pool.is_closed:
            raise StoreClosed("nothing can be searched any more")
        query = self._pool.submit(work, self._connection)
        try:
            with translate_errors():
                return await asyncio.shield(query)
        except asyncio.CancelledError:
            await _interrupt(self._connection, query)
            raise


class SearchPool:
    """Up to `size` connections, each opened at its first use.

    The database may be created later. More than `size` queries at once wait.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.is_closed = False
        self._slots = asyncio.Semaphore(size)
        self._threads = ThreadPoolExecutor(size, "zoea-search")
        self._idle: list[asyncio.Future[sqlite3.Connection]] = []
        self._running: dict[asyncio.Future[Any], sqlite3.Connection] = {}

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[SearchReader]:
        """Lend a connection. Raises StoreMissing where there is no database, and StoreError."""
        async with self._slots:
            opening = self._take_idle() or asyncio.ensure_future(
                asyncio.to_thread(partial(open_reader, self.path, any_thread=True))
            )
            try:
                # A caller that goes while its connection is opened leaves it to the next one.
                yield SearchReader(await asyncio.shield(opening), self)
            finally:
                self._idle.append(opening)
                if self.is_closed:
                    await self._close_idle()

    def _take_idle(self) -> asyncio.Future[sqlite3.Connection] | None:
        """Return an open connection or one that is being opened, None where there is neither."""
        while self._idle:
            opening = self._idle.pop()
            if not opening.done() or opening.exception() is None:
                return opening
        return None

    async def _close_idle(self) -> None:
        idle, self._idle = self._idle, []
        for opening in idle:
            opening.add_done_callback(_close_opened)  # which is called also where this is cancelled
        if idle:
            await asyncio.wait(idle)

    def submit(self, work: Callable[[sqlite3.Connection], T], connection: sqlite3.Connection) -> asyncio.Future[T]:
        """Run `work` in one of the pool's threads."""
        query = asyncio.get_running_loop().run_in_executor(self._threads, work, connection)
        self._running[query] = connection
        query.add_done_callback(lambda done: self._running.pop(done, None))
        return query

    async def close(self) -> None:
        """Interrupt running queries and end the threads; interrupted callers get StoreClosed."""
        self.is_closed = True
        for query, connection in tuple(self._running.items()):
            await _interrupt(connection, query)
        await self._close_idle()
        self._threads.shutdown(wait=False)


def _close_opened(opening: asyncio.Future[sqlite3.Connection]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


async def _interrupt(connection: sqlite3.Connection, query: asyncio.Future[Any]) -> None:
    """Interrupt a query until it has ended. Repeatedly, because one that has not begun does not notice."""
    while not query.done():
        connection.interrupt()
        await asyncio.wait({query}, timeout=_INTERRUPT_S)
    if not query.cancelled():
        query.exception()  # an interrupted query fails; its caller gets the cancellation instead


SEARCHES = 2
_CHUNK = 64  # required by aiosqlite for iterated cursors, which are not used


class _Reader:
    """A connection and the number of queries that wait for it.

    Attributes:
        has_lost: Whether a caller went while its query ran, which may still run.
    """

    __slots__ = ("connection", "has_lost", "waiting")

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self.connection = connection
        self.waiting = 0
        self.has_lost = False


class ReaderPool:
    """Connections for short queries, opened at once, and for searches, opened on demand."""

    def __init__(self, path: Path) -> None:
        self.search_pool = SearchPool(path, SEARCHES)
        self._path = path
        self._readers: list[_Reader] = []

    async def open(self, count: int) -> None:
        for _ in range(count):
            with translate_errors():
                connection = await aiosqlite.Connection(partial(_connect_with_log, self._path), _CHUNK)
            self._readers.append(_Reader(connection))

    async def read(self, sql: str, params: Iterable[Any]) -> list[sqlite3.Row]:
        reader = min(self._readers, key=lambda each: each.waiting)
        reader.waiting += 1
        try:
            with translate_errors():
                return list(await reader.connection.execute_fetchall(sql, params))
        except asyncio.CancelledError:
            reader.has_lost = True
            raise
        finally:
            reader.waiting -= 1

    async def close(self) -> None:
        """Interrupt running searches, and end the readers' threads."""
        await self.search_pool.close()
        readers, self._readers = self._readers, []
        for reader in readers:
            connection = reader.connection
            if reader.waiting or reader.has_lost:
                await _interrupt_reader(connection, asyncio.ensure_future(connection.execute_fetchall("SELECT 1")))
            if (ended := connection.stop()) is not None:  # closes it too; `close` goes to the thread twice
                await ended


def _connect_with_log(path: Path) -> sqlite3.Connection:
    """Connect, and open the log: now, because later no descriptor may be left. The first query reads the schema."""
    connection = connect_reader(path)
    try:
        connection.execute("PRAGMA schema_version").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


async def _interrupt_reader(connection: aiosqlite.Connection, query: asyncio.Future[Any]) -> None:
    """Interrupt until the query, and everything queued before it, has ended.

    Repeatedly, because a query that has not started yet misses an interrupt.
    """
    while not query.done():
        await connection.interrupt()
        await asyncio.wait({query}, timeout=_INTERRUPT_S)
    if not query.cancelled():
        query.exception()  # mark the error as retrieved; the caller gets the cancellation
