"""Reading beside the writer: a few connections for short queries, and others for searches.

Each query is one hop to a reader's thread, fetches everything and leaves no cursor
behind, so every query sees all that was acknowledged before it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiosqlite

from zoea.store.direct import BUSY_SECONDS, reader_uri
from zoea.store.failures import translated

SEARCHES = 2
_INTERRUPT_SECONDS = 0.01


async def connect(path: Path) -> aiosqlite.Connection:
    """A connection that cannot write, rows as `sqlite3.Row`."""
    with translated():
        reader = await aiosqlite.connect(
            reader_uri(path), uri=True, timeout=BUSY_SECONDS, isolation_level=None, cached_statements=256
        )
        reader.row_factory = sqlite3.Row
        try:
            await reader.execute_fetchall("PRAGMA query_only = ON")
        except BaseException:
            await reader.close()
            raise
    return reader


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

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection

    async def read(self, sql: str, params: Iterable[Any] = ()) -> list[sqlite3.Row]:
        """All rows of a query. When cancelled, returns once the query has really ended."""
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
                yield SearchReader(connection)
            finally:
                self._searchers.append(connection)

    async def close(self) -> None:
        """Interrupt what still runs, and end the readers' threads."""
        connections, self._all = self._all, []
        for connection in connections:
            await connection.interrupt()
            await connection.close()

    async def _connect(self) -> aiosqlite.Connection:
        connection = await connect(self._path)
        self._all.append(connection)
        return connection


async def _interrupt(connection: aiosqlite.Connection, query: asyncio.Future[Any]) -> None:
    """Interrupt until the query has ended: one that has not begun yet would not notice the first time."""
    while not query.done():
        await connection.interrupt()
        await asyncio.wait({query}, timeout=_INTERRUPT_SECONDS)
    if not query.cancelled():
        query.exception()  # an interrupted query fails; its caller hears of the cancellation instead
