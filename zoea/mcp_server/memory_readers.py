"""Reading the swarm's memory for clients: a few threads, each with a read-only connection of its own.

Beside a live writer and without an owner alike. A client that gives up, or a
question that takes too long, interrupts its query; nothing here can write.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from zoea.model.errors import StoreError
from zoea.store.database_file import open_reader
from zoea.store.sqlite_errors import translate_errors

READERS = 4
DEADLINE_S = 10.0

T = TypeVar("T")


class _Reader:
    """One thread and its connection, opened at the first question."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="zoea library")
        self._connection: sqlite3.Connection | None = None

    async def ask(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the connection; when cancelled, returns once the query has really ended."""
        asking = asyncio.get_running_loop().run_in_executor(self._thread, self._ask, work)
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            while not asking.done():
                # Again and again: a query that has not begun yet does not notice.
                if self._connection is not None:
                    self._connection.interrupt()
                await asyncio.wait({asking}, timeout=0.01)
            if not asking.cancelled():
                asking.exception()  # an interrupted query fails; its caller hears of the cancellation instead
            raise

    def _ask(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._connection is None:
            self._connection = open_reader(self._database)
        with translate_errors():
            return work(self._connection)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.interrupt()
        self._thread.submit(self._close)
        self._thread.shutdown(wait=False)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class MemoryReaders:
    """The stored part of a workspace.

    Args:
        database: Its file, which may come into being later.
        deadline_s: How long a question may take.
    """

    def __init__(self, database: Path, *, deadline_s: float = DEADLINE_S) -> None:
        self.database = database
        self._deadline_s = deadline_s
        self._readers = [_Reader(database) for _ in range(READERS)]
        self._free = list(self._readers)
        self._room = asyncio.Semaphore(READERS)

    async def ask(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` finds with a read-only connection, whose rows are `sqlite3.Row`.

        Raises:
            StoreMissing: there is no database yet.
            StoreError: it cannot be read, or not within the deadline.
        """
        try:
            async with asyncio.timeout(self._deadline_s), self._room:
                reader = self._free.pop()
                try:
                    return await reader.ask(work)
                finally:
                    self._free.append(reader)
        except TimeoutError:
            raise StoreError(
                f"that took longer than {self._deadline_s:g} s",
                hint="narrow it: name a mysis, a time, or a longer text",
                title="Too long",
            ) from None

    def close(self) -> None:
        """End what still runs, and the threads."""
        for reader in self._readers:
            reader.close()
