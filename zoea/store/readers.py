"""Read beside the writer: a few connections for short queries, others for searches.

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
from zoea.store.database_file import connect_reader
from zoea.store.sqlite_errors import translate_errors

SEARCHES = 2
_INTERRUPT_SECONDS = 0.01
_CHUNK = 64  # required by aiosqlite for iterated cursors, which are not used

T = TypeVar("T")


class _Reader:
    """A connection and the number of queries that wait for it."""

    __slots__ = ("connection", "waiting")

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self.connection = connection
        self.waiting = 0


class SearchReader:
    """A connection for long queries; cancelling a query interrupts it.

    For a deadline: `async with asyncio.timeout(2): await reader.read(...)`.
    """

    def __init__(self, connection: sqlite3.Connection, readers: ReaderPool) -> None:
        self._connection = connection
        self._readers = readers

    async def read(self, sql: str, params: Iterable[Any] = ()) -> list[sqlite3.Row]:
        """Return all rows of a query; see `run`."""
        given = params if isinstance(params, dict) else tuple(params)
        return await self.run(lambda connection: list(connection.execute(sql, given)))

    async def run(self, call: Callable[[sqlite3.Connection], T]) -> T:
        """Call a function with the connection, in a thread, and return its result.

        When cancelled, returns only after the call has ended.

        Raises:
            StoreError: SQLite failed.
        """
        if self._readers.closed:
            raise StoreClosed("nothing can be searched any more")
        query = self._readers.run_in_thread(call, self._connection)
        try:
            with translate_errors():
                return await asyncio.shield(query)
        except asyncio.CancelledError:
            await _interrupt_search(self._connection, query)
            raise


class ReaderPool:
    """Connections for short queries, opened at once, and for searches, opened on demand."""

    def __init__(self, path: Path) -> None:
        self.closed = False
        self._path = path
        self._readers: list[_Reader] = []
        self._searchers: list[sqlite3.Connection] = []
        self._all: list[aiosqlite.Connection] = []
        self._searching = asyncio.Semaphore(SEARCHES)
        self._threads = ThreadPoolExecutor(SEARCHES, "zoea-search")
        self._running: dict[asyncio.Future[Any], sqlite3.Connection] = {}

    async def open(self, count: int) -> None:
        for _ in range(count):
            self._readers.append(_Reader(await self._connect()))

    async def read(self, sql: str, params: Iterable[Any]) -> list[sqlite3.Row]:
        reader = min(self._readers, key=lambda each: each.waiting)
        reader.waiting += 1
        try:
            with translate_errors():
                return list(await reader.connection.execute_fetchall(sql, params))
        finally:
            reader.waiting -= 1

    @asynccontextmanager
    async def searcher(self) -> AsyncIterator[SearchReader]:
        async with self._searching:
            if self._searchers:
                connection = self._searchers.pop()
            else:
                with translate_errors():
                    connection = await asyncio.to_thread(connect_reader, self._path, any_thread=True)
            try:
                yield SearchReader(connection, self)
            finally:
                if self.closed:
                    connection.close()
                else:
                    self._searchers.append(connection)

    def run_in_thread(
        self, call: Callable[[sqlite3.Connection], T], connection: sqlite3.Connection
    ) -> asyncio.Future[T]:
        """Run `call` in one of the search threads."""
        query = asyncio.get_running_loop().run_in_executor(self._threads, call, connection)
        self._running[query] = connection
        query.add_done_callback(lambda done: self._running.pop(done, None))
        return query

    async def close(self) -> None:
        """Interrupt running searches, and end the readers' threads."""
        self.closed = True
        for query, searching in tuple(self._running.items()):
            await _interrupt_search(searching, query)
        searchers, self._searchers = self._searchers, []
        for idle in searchers:
            idle.close()
        self._threads.shutdown(wait=False)
        connections, self._all = self._all, []
        for connection in connections:
            await _interrupt_reader(connection, asyncio.ensure_future(connection.execute_fetchall("SELECT 1")))
            await connection.close()

    async def _connect(self) -> aiosqlite.Connection:
        with translate_errors():
            connection = await aiosqlite.Connection(partial(connect_reader, self._path), _CHUNK)
        self._all.append(connection)
        return connection


async def _interrupt_search(connection: sqlite3.Connection, query: asyncio.Future[Any]) -> None:
    """Interrupt until the search has ended; repeatedly, see `_interrupt_reader`."""
    while not query.done():
        connection.interrupt()
        await asyncio.wait({query}, timeout=_INTERRUPT_SECONDS)
    if not query.cancelled():
        query.exception()


async def _interrupt_reader(connection: aiosqlite.Connection, query: asyncio.Future[Any]) -> None:
    """Interrupt until the query, and everything queued before it, has ended.

    Repeatedly, because a query that has not started yet misses an interrupt.
    """
    while not query.done():
        await connection.interrupt()
        await asyncio.wait({query}, timeout=_INTERRUPT_SECONDS)
    if not query.cancelled():
        query.exception()  # mark the error as retrieved; the caller gets the cancellation
