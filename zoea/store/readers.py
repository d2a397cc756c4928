"""Reading beside the writer: a few connections for short queries, and others for searches.

Each query is one hop to a reader's thread, fetches everything and leaves no cursor
behind, so every query sees all that was acknowledged before it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiosqlite

from zoea.model.errors import StoreClosed
from zoea.store.direct import connect_reader
from zoea.store.failures import translated

SEARCHES = 2
_INTERRUPT_SECONDS = 0.01
_CHUNK = 64  # of iterated cursors, which are not used here


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

    def __init__(self, connection: aiosqlite.Connection, readers: Readers) -> None:
        self._connection = connection
        self._readers = readers

    async def read(self, sql: str, params: Iterable[Any] = ()) -> list[sqlite3.Row]:
        """All rows of a query. When cancelled, returns once the query has really ended. Raises StoreError."""
        if self._readers.closed:
            raise StoreClosed("nothing can be searched any more")
        query = asyncio.ensure_future(self._connection.execute_fetchall(sql, params))
        try:
            with translated():
                return list(await asyncio.shield(query))
        except asyncio.CancelledError:
            await _interrupt(self._connection, query)
            raise


class Readers:
    """`count` connections for short queries, opened at once; those for searches on demand."""

    def __init__(self, path: Path) -> None:
        self.closed = False
        self._path = path
        self._readers: list[_Reader] = []
        self._searchers: list[aiosqlite.Connection] = []
        self._all: list[aiosqlite.Connection] = []
        self._searching = asyncio.Semaphore(SEARCHES)

    async def open(self, count: int) -> None:
        for _ in range(count):
            self._readers.append(_Reader(await self._connect()))

    async def read(self, sql: str, params: Iterable[Any]) -> list[sqlite3.Row]:
        reader = min(self._readers, key=lambda each: each.waiting)
        reader.waiting += 1
        try:
            with translated():
                return list(await reader.connection.execute_fetchall(sql, params))
        finally:
            reader.waiting -= 1

    @asynccontextmanager
    async def searcher(self) -> AsyncIterator[SearchReader]:
        async with self._searching:
            connection = self._searchers.pop() if self._searchers else await self._connect()
            try:
                yield SearchReader(connection, self)
            finally:
                self._searchers.append(connection)

    async def close(self) -> None:
        """Interrupt what still runs, and end the readers' threads."""
        self.closed = True
        connections, self._all = self._all, []
        for connection in connections:
            await _interrupt(connection, asyncio.ensure_future(connection.execute_fetchall("SELECT 1")))
            await connection.close()

    async def _connect(self) -> aiosqlite.Connection:
        with translated():
            connection = await aiosqlite.Connection(partial(connect_reader, self._path), _CHUNK)
        self._all.append(connection)
        return connection


async def _interrupt(connection: aiosqlite.Connection, query: asyncio.Future[Any]) -> None:
    """Interrupt until the query, and whatever was queued before it, has ended.

    Again and again: a query that has not begun yet does not notice.
    """
    while not query.done():
        await connection.interrupt()
        await asyncio.wait({query}, timeout=_INTERRUPT_SECONDS)
    if not query.cancelled():
        query.exception()  # an interrupted query fails; its caller hears of the cancellation instead
