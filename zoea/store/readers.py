"""Read beside the writer: a few connections for short queries, and a pool for searches.

Each query runs in a reader's thread, fetches all rows and keeps no cursor open, so it sees every
write acknowledged before it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import aiosqlite

from zoea.store.database_file import connect_reader
from zoea.store.search_pool import SearchPool
from zoea.store.sqlite_errors import translate_errors

SEARCHES = 2
_INTERRUPT_SECONDS = 0.01
_CHUNK = 64  # required by aiosqlite for iterated cursors, which are not used


class _Reader:
    """A connection and the number of queries that wait for it."""

    __slots__ = ("connection", "waiting")

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self.connection = connection
        self.waiting = 0


class ReaderPool:
    """Connections for short queries, opened at once, and for searches, opened on demand."""

    def __init__(self, path: Path) -> None:
        self.search_pool = SearchPool(path, SEARCHES)
        self._path = path
        self._readers: list[_Reader] = []
        self._all: list[aiosqlite.Connection] = []

    async def open(self, count: int) -> None:
        for _ in range(count):
            with translate_errors():
                connection = await aiosqlite.Connection(partial(connect_reader, self._path), _CHUNK)
            self._all.append(connection)
            self._readers.append(_Reader(connection))

    async def read(self, sql: str, params: Iterable[Any]) -> list[sqlite3.Row]:
        reader = min(self._readers, key=lambda each: each.waiting)
        reader.waiting += 1
        try:
            with translate_errors():
                return list(await reader.connection.execute_fetchall(sql, params))
        finally:
            reader.waiting -= 1

    async def close(self) -> None:
        """Interrupt running searches, and end the readers' threads."""
        await self.search_pool.close()
        connections, self._all = self._all, []
        for connection in connections:
            await _interrupt_reader(connection, asyncio.ensure_future(connection.execute_fetchall("SELECT 1")))
            await connection.close()


async def _interrupt_reader(connection: aiosqlite.Connection, query: asyncio.Future[Any]) -> None:
    """Interrupt until the query, and everything queued before it, has ended.

    Repeatedly, because a query that has not started yet misses an interrupt.
    """
    while not query.done():
        await connection.interrupt()
        await asyncio.wait({query}, timeout=_INTERRUPT_SECONDS)
    if not query.cancelled():
        query.exception()  # mark the error as retrieved; the caller gets the cancellation
