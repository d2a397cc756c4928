"""The readers that clients' searches run on: interrupted when given up or too slow, and fit for the next."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from zoea.mcp_server.memory_readers import READERS, MemoryReaders
from zoea.model.errors import StoreError, StoreMissing
from zoea.store import Store

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
PATIENCE_S = 20.0


@pytest.fixture
async def database(tmp_path: Path) -> Path:
    store = await Store.open(tmp_path / "zoea.db", clock_now=lambda: 1)
    await store.close()
    return store.path


def endless(reader: sqlite3.Connection) -> None:
    reader.execute(ENDLESS).fetchone()


def version(reader: sqlite3.Connection) -> bool:
    return bool(reader.execute("PRAGMA user_version").fetchone()[0])


async def test_a_question_that_takes_too_long_is_ended_and_the_reader_goes_on(database: Path) -> None:
    readers = MemoryReaders(database, deadline_s=0.05)
    for _ in range(READERS + 1):
        with pytest.raises(StoreError, match="took longer than"):
            await readers.ask(endless)
    patient = MemoryReaders(database)
    assert await patient.ask(version)
    readers.close()
    patient.close()


async def test_a_client_that_gives_up_ends_its_question(database: Path) -> None:
    readers = MemoryReaders(database)
    begun = threading.Event()

    def work(reader: sqlite3.Connection) -> None:
        begun.set()
        endless(reader)

    asking = asyncio.create_task(readers.ask(work))
    assert await asyncio.to_thread(begun.wait, PATIENCE_S)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(PATIENCE_S):
            await asking
    assert await readers.ask(version)
    readers.close()


async def test_more_questions_than_readers_wait_for_their_turn(database: Path) -> None:
    readers = MemoryReaders(database)
    assert all(await asyncio.gather(*(readers.ask(version) for _ in range(READERS * 5))))
    readers.close()


async def test_nothing_can_be_written(database: Path) -> None:
    readers = MemoryReaders(database)
    with pytest.raises(StoreError):
        await readers.ask(lambda reader: reader.execute("DELETE FROM mysis"))
    readers.close()


async def test_a_database_that_comes_later_is_read_then(tmp_path: Path) -> None:
    readers = MemoryReaders(tmp_path / "zoea.db")
    with pytest.raises(StoreMissing):
        await readers.ask(version)
    store = await Store.open(tmp_path / "zoea.db", clock_now=lambda: 1)
    assert await readers.ask(version)
    await store.close()
    readers.close()


async def test_closing_ends_what_still_runs(database: Path) -> None:
    readers = MemoryReaders(database)
    begun = threading.Event()

    def work(reader: sqlite3.Connection) -> None:
        begun.set()
        endless(reader)

    asking = asyncio.create_task(readers.ask(work))
    assert await asyncio.to_thread(begun.wait, PATIENCE_S)
    readers.close()
    with pytest.raises(StoreError):
        async with asyncio.timeout(PATIENCE_S):
            await asking
