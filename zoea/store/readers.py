"""Reading beside the writer: a few connections for short queries, and others for searches.

Each query is one hop to a reader's thread, fetches everything and leaves no cursor
behind, so every query sees all that was acknowledged before it.
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
_CHUNK = 64  # of iterated cursors, which are not used here

T = TypeVar("T")


class _Reader:
    """A connection and how many queries wait for it."""

    __slots__ = ("connection", "waiting")

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self.connection = connection
        self.waiting = 0


class SearchReader:
    """A connection of one's own for queries that may be long; cancelling one interrupts it.

    A deadline is a cancellation: `async with asyncio.timeout(2): await reader.read(...)`.
    """

    def __init__(self, connection: sqlite3.Connection, readers: ReaderPool) -> None:
        self._connection = connection
        self._readers = readers

    async def read(self, sql: str, params: Iterable[Any] = ()) -> list[sqlite3.Row]:
        """All rows of a query; see `run`."""
        given = params if isinstance(params, dict) else tuple(params)
        return await self.run(lambda connection: list(connection.execute(sql, given)))

    async def run(self, call: Callable[[sqlite3.Connection], T]) -> T:
        """What `call` makes of the connection, in a thread.

        When cancelled, returns once the call has really ended. Raises StoreError, and what `call` raises.
        """
        if self._readers.closed:
            raise StoreClosed("nothing can be searched any more")
        query = self._readers.in_thread(call, self._connection)
        try:
            with translate_errors():
                return await asyncio.shield(query)
        except asyncio.CancelledError:
            await _end(self._connection, query)
            raise


class ReaderPool:
    """`count` connections for short queries, opened at once; those for searches on demand."""

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

    def in_thread(self, call: Callable[[sqlite3.Connection], T], connection: sqlite3.Connection) -> asyncio.Future[T]:
        """Run `call` in one of the threads for searches."""
        query = asyncio.get_running_loop().run_in_executor(self._threads, call, connection)
        self._running[query] = connection
        query.add_done_callback(lambda done: self._running.pop(done, None))
        return query

    async def close(self) -> None:
        """Interrupt what still runs, and end the readers' threads."""
        self.closed = True
        for query, searching in tuple(self._running.items()):
            await _end(searching, query)
        searchers, self._searchers = self._searchers, []
        for idle in searchers:
            idle.close()
        self._threads.shutdown(wait=False)
        connections, self._all = self._all, []
        for connection in connections:
            await _interrupt(connection, asyncio.ensure_future(connection.execute_fetchall("SELECT 1")))
            await connection.close()

    async def _connect(self) -> aiosqlite.Connection:
        with translate_errors():
            connection = await aiosqlite.Connection(partial(connect_reader, self._path), _CHUNK)
        self._all.append(connection)
        return connection


async def _end(connection: sqlite3.Connection, query: asyncio.Future[Any]) -> None:
    """Interrupt until the search has ended; again and again, as in `_interrupt`."""
    while not query.done():
        connection.interrupt()
        await asyncio.wait({query}, timeout=_INTERRUPT_SECONDS)
    if not query.cancelled():
        query.exception()


async def _interrupt(connection: aiosqlite.Connection, query: asyncio.Future[Any]) -> None:
    """Interrupt until the query, and whatever was queued before it, has ended.

    Again and again: a query that has not begun yet does not notice.
    """
    while not query.done():
        await connection.interrupt()
        await asyncio.wait({query}, timeout=_INTERRUPT_SECONDS)
    if not query.cancelled():
        query.exception()  # an interrupted query fails; its caller hears of the cancellation instead
