"""The memory reader: cancelled and slow queries are interrupted, and the connection stays usable."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from zoea.model.errors import StoreError, StoreMissing
from zoea.store.memory_reader import MemoryReader
from zoea.store.readers import SearchPool
from zoea.store.store import Store

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
PATIENCE_S = 20.0
CONNECTIONS = 4


@pytest.fixture
async def database(tmp_path: Path) -> Path:
    store = await Store.open(tmp_path / "zoea.db", clock_now=lambda: 1)
    await store.close()
    return store.path


def reader_of(database: Path, *, deadline_s: float = 10.0) -> MemoryReader:
    return MemoryReader(SearchPool(database, CONNECTIONS), deadline_s=deadline_s)


def endless(reader: sqlite3.Connection) -> None:
    reader.execute(ENDLESS).fetchone()


def version(reader: sqlite3.Connection) -> bool:
    return bool(reader.execute("PRAGMA user_version").fetchone()[0])


async def test_a_question_that_takes_too_long_is_ended_and_the_reader_goes_on(database: Path) -> None:
    reader = reader_of(database, deadline_s=0.05)
    for _ in range(CONNECTIONS + 1):
        with pytest.raises(StoreError, match="took longer than"):
            await reader.run(endless)
    patient = reader_of(database)
    assert await patient.run(version)
    await reader.close()
    await patient.close()


async def test_a_client_that_gives_up_ends_its_question(database: Path) -> None:
    reader = reader_of(database)
    begun = threading.Event()

    def work(reader: sqlite3.Connection) -> None:
        begun.set()
        endless(reader)

    asking = asyncio.create_task(reader.run(work))
    assert await asyncio.to_thread(begun.wait, PATIENCE_S)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(PATIENCE_S):
            await asking
    assert await reader.run(version)
    await reader.close()


async def test_more_questions_than_readers_wait_for_their_turn(database: Path) -> None:
    reader = reader_of(database)
    assert all(await asyncio.gather(*(reader.run(version) for _ in range(CONNECTIONS * 5))))
    await reader.close()


async def test_nothing_can_be_written(database: Path) -> None:
    reader = reader_of(database)
    with pytest.raises(StoreError):
        await reader.run(lambda reader: reader.execute("DELETE FROM mysis"))
    await reader.close()


async def test_a_database_that_comes_later_is_read_then(tmp_path: Path) -> None:
    reader = reader_of(tmp_path / "zoea.db")
    with pytest.raises(StoreMissing):
        await reader.run(version)
    store = await Store.open(tmp_path / "zoea.db", clock_now=lambda: 1)
    assert await reader.run(version)
    await store.close()
    await reader.close()


async def test_closing_ends_running_queries(database: Path) -> None:
    reader = reader_of(database)
    begun = threading.Event()

    def work(reader: sqlite3.Connection) -> None:
        begun.set()
        endless(reader)

    asking = asyncio.create_task(reader.run(work))
    assert await asyncio.to_thread(begun.wait, PATIENCE_S)
    await reader.close()
    with pytest.raises(StoreError):
        async with asyncio.timeout(PATIENCE_S):
            await asking
