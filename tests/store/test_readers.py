"""Readers work in parallel, beside the writer, and long searches can be interrupted."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.store.conftest import SettableClock
from tests.waiting import until
from zoea.model.errors import StoreClosed, StoreError, StoreMissing
from zoea.store import readers
from zoea.store.database_file import open_reader
from zoea.store.readers import SearchPool
from zoea.store.store import Store

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


async def test_rows_are_read_by_name_and_by_place(store: Store) -> None:
    (row,) = await store.read("SELECT ? AS left, ? AS right", ("a", 2))
    assert (row["left"], row[1]) == ("a", 2)


async def test_many_can_read_at_once(store: Store) -> None:
    rows = await asyncio.gather(*(store.read("SELECT ?", (number,)) for number in range(200)))
    assert [row[0][0] for row in rows] == list(range(200))


async def test_a_reader_cannot_write(store: Store) -> None:
    with pytest.raises(StoreError, match="readonly"):
        await store.read("DELETE FROM setting")


async def test_a_wrong_query_is_a_store_error_and_the_next_one_works(store: Store) -> None:
    for _ in range(5):
        with pytest.raises(StoreError, match="no such column"):
            await store.read("SELECT nonsense")
    assert (await store.read("SELECT 1"))[0][0] == 1


async def test_a_long_read_does_not_stop_the_writer(store: Store) -> None:
    async with store.search_reader() as reader:
        search = asyncio.create_task(reader.read(ENDLESS))
        await store.write(lambda connection: connection.emit("state", None))
        assert len(await store.read("SELECT 1 FROM event")) == 1
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search


async def test_a_search_ends_at_its_deadline_and_its_connection_serves_the_next(store: Store) -> None:
    async with store.search_reader() as reader:
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await reader.read(ENDLESS)
        assert time.monotonic() - begun < 20
        assert (await reader.read("SELECT ?", (3,)))[0][0] == 3


async def test_a_search_cancelled_before_its_start_is_interrupted(store: Store) -> None:
    async with store.search_reader() as reader:
        for _ in range(20):
            search = asyncio.create_task(reader.read(ENDLESS))
            await asyncio.sleep(0)
            search.cancel()
            with pytest.raises(asyncio.CancelledError):
                await search


async def test_a_search_that_ended_as_it_was_cancelled_is_still_cancelled(store: Store) -> None:
    async with store.search_reader() as reader:
        search = asyncio.create_task(reader.read("SELECT 1"))
        await asyncio.sleep(0)
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search


async def test_a_wrong_search_is_a_store_error(store: Store) -> None:
    async with store.search_reader() as reader:
        with pytest.raises(StoreError, match="syntax"):
            await reader.read("SELEKT")


async def test_searches_over_the_limit_wait(store: Store) -> None:
    async def search(number: int) -> int:
        async with store.search_reader() as reader:
            found: int = (await reader.read("SELECT ?", (number,)))[0][0]
            return found

    assert await asyncio.gather(*(search(number) for number in range(20))) == list(range(20))


async def test_a_connection_opened_for_a_caller_that_left_serves_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_open, opened = threading.Event(), []

    def open_slowly(path: Path, *, any_thread: bool) -> sqlite3.Connection:
        may_open.wait(20)
        opened.append(path)
        return open_reader(path, any_thread=any_thread)

    monkeypatch.setattr(readers, "open_reader", open_slowly)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), store.search_reader():
                pytest.fail("nothing is open yet")
    may_open.set()
    async with store.search_reader() as reader:
        assert (await reader.read("SELECT ?", (3,)))[0][0] == 3
    assert len(opened) == 1


async def test_a_connection_that_could_not_be_opened_is_opened_again(path: Path, store: Store) -> None:
    pool = SearchPool(path.with_name("later.db"), 1)
    with pytest.raises(StoreMissing):
        async with pool.reader():
            pytest.fail("there is no database")
    pool.path = path
    async with pool.reader() as reader:
        assert (await reader.read("SELECT 1"))[0][0] == 1
    await pool.close()


async def test_a_cancelled_close_of_the_searches_leaves_no_connection_open(
    path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_open, opened = threading.Event(), list[sqlite3.Connection]()

    def open_slowly(path: Path, *, any_thread: bool) -> sqlite3.Connection:
        may_open.wait(20 if opened else 0)
        opened.append(open_reader(path, any_thread=any_thread))
        return opened[-1]

    def count_open() -> int:
        count = 0
        for connection in opened:
            with suppress(sqlite3.ProgrammingError):
                connection.execute("SELECT 1")
                count += 1
        return count

    monkeypatch.setattr(readers, "open_reader", open_slowly)
    pool = SearchPool(path, 2)
    async with pool.reader():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), pool.reader():
                pytest.fail("the second is not open yet")
    closing = asyncio.create_task(pool.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert count_open() == 0
    may_open.set()
    await until(lambda: len(opened) == 2 and not count_open())
    await pool.close()


async def test_closing_ends_a_search_that_still_runs(path: Path, clock: SettableClock) -> None:
    store = await Store.open(path, clock_now=clock.now)
    async with store.search_reader() as reader:
        search = asyncio.create_task(reader.read(ENDLESS))
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(StoreClosed, match="while this ran"):
            await search
        with pytest.raises(StoreClosed):
            await reader.read("SELECT 1")
