"""Group commit: many ops share a transaction, and each fails alone."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.conftest import NOON, SettableClock
from zoea.model.errors import StateRefused, StoreClosed, StoreConflict, StoreError
from zoea.model.values import Event
from zoea.store import writer
from zoea.store.database_file import open_reader
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection

Op = Callable[[WriterConnection], int]


def put(key: str, value: int = 1) -> Op:
    def op(connection: WriterConnection) -> int:
        connection.execute("INSERT INTO setting VALUES (?, ?, ?)", (key, str(value), connection.now()))
        return value

    return op


def put_then_raise(key: str, error: BaseException) -> Op:
    def op(connection: WriterConnection) -> int:
        put(key)(connection)
        connection.emit("never", None)
        raise error

    return op


async def keys(store: Store) -> list[str]:
    return [row["key"] for row in await store.read("SELECT key FROM setting ORDER BY key")]


def note_in(order: list[str], name: str) -> Callable[[WriterConnection], None]:
    return lambda _: order.append(name)


class Gate:
    """An op that blocks the writer until opened, so that other ops gather behind it."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()

    def __call__(self, connection: WriterConnection) -> None:
        self.entered.set()
        assert self.open.wait(10)


def writer_on(path: Path, clock: SettableClock, on_events: Callable[[list[Event]], None]) -> writer.Writer:
    """A writer without a store; creates an empty database if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def connect() -> WriterConnection:
        connection = sqlite3.connect(path, isolation_level=None, factory=WriterConnection)
        connection.clock_now = clock.now
        return connection

    return writer.Writer(connect, writer.WriterStats(), on_events, lambda error: None, lambda connection: None)


async def gathered(store: Store, *ops: Callable[[WriterConnection], object]) -> list[object]:
    """Return the results of ops that all wait when the writer takes the first."""
    gate = Gate()
    first = asyncio.create_task(store.write(gate))
    await asyncio.to_thread(gate.entered.wait, 10)
    rest = [asyncio.create_task(store.write(op)) for op in ops]
    await asyncio.sleep(0)
    gate.open.set()
    await first
    return await asyncio.gather(*rest, return_exceptions=True)


def read_sync(connection: WriterConnection) -> str:
    return {1: "normal", 2: "full"}[connection.execute("PRAGMA synchronous").fetchone()[0]]


async def test_a_write_returns_what_its_op_returned(store: Store) -> None:
    assert await store.write(put("a", 7)) == 7


async def test_readers_see_what_was_acknowledged(store: Store) -> None:
    for number in range(50):
        await store.write(put(f"{number:02}"))
        assert len(await store.read("SELECT 1 FROM setting")) == number + 1


async def test_ops_run_in_the_order_they_were_given(store: Store) -> None:
    order: list[int] = []
    await gathered(store, *(lambda _, n=n: order.append(n) for n in range(300)))
    assert order == list(range(300))


async def test_what_a_person_did_runs_first_and_is_committed_soon(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "GROUP_SECONDS", 60.0)  # no other group ends early on a busy machine
    monkeypatch.setattr(writer, "URGENT_SECONDS", 0.0)
    order: list[str] = []
    gate, before = Gate(), store.stats.commits
    first = asyncio.create_task(store.write(gate))
    await asyncio.to_thread(gate.entered.wait, 10)
    second = Gate()
    others = [store.submit(second), *(store.submit(note_in(order, f"{n}")) for n in range(3))]
    urgent = [store.submit(note_in(order, f"person {n}"), urgent=True) for n in range(2)]
    gate.open.set()
    await asyncio.gather(first, *urgent)
    assert order[:2] == ["person 0", "person 1"]
    assert store.stats.commits - before == 2
    second.open.set()
    await asyncio.gather(*others)
    assert order[2:] == ["0", "1", "2"]
    assert store.stats.commits - before == 3


async def test_ops_that_wait_share_a_commit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "GROUP_SECONDS", 60.0)  # no group ends early on a busy machine
    before = store.stats.commits
    await gathered(store, *(put(f"{n}") for n in range(100)))
    assert store.stats.commits - before == 1
    assert store.stats.ops == 101


async def test_a_group_is_bounded(store: Store) -> None:
    before = store.stats.commits
    await gathered(store, *(put(f"{n}") for n in range(600)))
    assert store.stats.commits - before >= 3


async def test_a_thousand_callers_at_once_are_all_served(store: Store) -> None:
    values = await asyncio.gather(*(store.write(put(f"{n:04}", n)) for n in range(1000)))
    assert values == list(range(1000))
    assert len(await keys(store)) == 1000


async def test_an_op_that_raises_fails_alone(store: Store) -> None:
    outcomes = await gathered(store, put("a"), put_then_raise("b", StateRefused("no")), put("c"))
    assert outcomes[0] == outcomes[2] == 1
    assert isinstance(outcomes[1], StateRefused)
    assert await keys(store) == ["a", "c"]
    assert store.stats.failed == 1


async def test_a_violated_constraint_fails_only_its_op(store: Store) -> None:
    outcomes = await gathered(store, put("a"), put("a"), put("b"))
    assert isinstance(outcomes[1], StoreConflict)
    assert isinstance(outcomes[1].__cause__, sqlite3.IntegrityError)
    assert await keys(store) == ["a", "b"]


async def test_a_broken_reference_is_refused(store: Store) -> None:
    with pytest.raises(StoreConflict, match="FOREIGN KEY"):
        await store.write(lambda connection: connection.emit("state", 404))


async def test_wrong_sql_is_a_store_error(store: Store) -> None:
    with pytest.raises(StoreError, match="no such table"):
        await store.write(lambda connection: connection.execute("INSERT INTO nowhere VALUES (1)"))


@pytest.mark.parametrize("error", [StopIteration("s"), KeyboardInterrupt(), SystemExit(1), asyncio.CancelledError()])
async def test_exceptions_a_future_cannot_hold_become_runtime_errors(store: Store, error: BaseException) -> None:
    with pytest.raises(RuntimeError, match=type(error).__name__):
        await store.write(put_then_raise("a", error))
    assert await store.write(put("b")) == 1
    assert await keys(store) == ["b"]


async def test_an_op_that_loses_the_transaction_does_not_affect_others(store: Store) -> None:
    def lose(connection: WriterConnection) -> None:
        connection.execute("INSERT INTO setting VALUES ('x', '1', 0)")
        connection.execute("INSERT OR ROLLBACK INTO setting VALUES ('x', '1', 0)")

    outcomes = await gathered(store, put("a"), lose, put("b"))
    assert outcomes[0] == outcomes[2] == 1
    assert isinstance(outcomes[1], StoreConflict)
    assert await keys(store) == ["a", "b"]
    assert store.stats.lost == 1


async def test_an_op_that_hides_that_it_lost_the_transaction_fails(store: Store) -> None:
    def lose(connection: WriterConnection) -> str:
        connection.execute("INSERT INTO setting VALUES ('x', '1', 0)")
        try:
            connection.execute("INSERT OR ROLLBACK INTO setting VALUES ('x', '1', 0)")
        except sqlite3.IntegrityError:
            return "all is well"
        return ""

    outcomes = await gathered(store, put("a"), lose, put("b"))
    assert isinstance(outcomes[1], StoreError)
    assert await keys(store) == ["a", "b"]


async def test_a_commit_that_is_refused_fails_only_the_op_to_blame(store: Store) -> None:
    def defer(connection: WriterConnection) -> None:
        connection.execute("PRAGMA defer_foreign_keys = ON")
        connection.emit("orphan", 404)

    events: list[Event] = []
    store.on_events = events.extend
    outcomes = await gathered(store, put("a"), defer, put("b"))
    assert outcomes[0] == outcomes[2] == 1
    assert isinstance(outcomes[1], StoreConflict)
    assert await keys(store) == ["a", "b"]
    assert events == []


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_an_op_cannot_end_the_transaction(store: Store, end: str) -> None:
    with pytest.raises(StoreError, match="an op cannot"):
        await store.write(lambda connection: getattr(connection, end)())
    with pytest.raises(StoreError, match="script"):
        await store.write(lambda connection: connection.executescript("DELETE FROM setting"))


async def test_a_cursor_comes_back_closed(store: Store) -> None:
    cursor = await store.write(lambda connection: connection.execute("SELECT 1"))
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        cursor.fetchone()


async def test_the_op_of_a_cancelled_caller_still_runs(store: Store) -> None:
    gate = Gate()
    first = asyncio.create_task(store.write(gate))
    await asyncio.to_thread(gate.entered.wait, 10)
    gone = asyncio.create_task(store.write(put("a")))
    await asyncio.sleep(0)
    gone.cancel()
    gate.open.set()
    await first
    with pytest.raises(asyncio.CancelledError):
        await gone
    await store.write(put("b"))
    assert await keys(store) == ["a", "b"]


async def test_an_op_that_fails_after_its_caller_has_gone_is_logged(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    first = asyncio.create_task(store.write(gate))
    await asyncio.to_thread(gate.entered.wait, 10)
    gone = asyncio.create_task(store.write(put_then_raise("a", StateRefused("after a cancellation"))))
    await asyncio.sleep(0)
    gone.cancel()
    with caplog.at_level(logging.WARNING, "zoea.store"):
        gate.open.set()
        await first
        await store.write(put("b"))
    assert "after a cancellation" in caplog.text


async def test_the_time_is_constant_within_an_op(store: Store, clock: SettableClock) -> None:
    def twice(connection: WriterConnection) -> tuple[int, int]:
        before = connection.now()
        clock.time += 5
        return before, connection.now()

    assert await store.write(twice) == (NOON, NOON)
    assert await store.write(lambda connection: connection.now()) == NOON + 5


async def test_events_are_published_in_order_after_the_commit(store: Store) -> None:
    published: list[list[Event]] = []
    store.on_events = published.append
    first = await store.write(lambda connection: connection.emit("state", None, to="idle", count=2, ok=True, why=None))
    data: dict[str, str | int | float | bool | None] = {"to": "idle", "count": 2, "ok": True, "why": None}
    assert published == [[Event(first, "state", None, data, NOON)]]
    stored = await store.read("SELECT kind, data FROM event")
    assert tuple(stored[0]) == ("state", '{"to": "idle", "count": 2, "ok": true, "why": null}')


async def test_only_an_op_that_is_alone_and_need_not_be_synced_does_not_wait_for_the_disk(store: Store) -> None:
    for _ in range(2):
        assert await store.write(read_sync, is_synced=False) == "normal"
        assert await store.write(read_sync) == "full"
    gate = Gate()
    first = store.submit(gate, is_synced=False)
    await asyncio.to_thread(gate.entered.wait, 10)
    others = [store.submit(read_sync, is_synced=False), store.submit(read_sync)]
    gate.open.set()
    await first
    assert await asyncio.gather(*others) == ["full", "full"]


async def test_an_op_that_need_not_be_synced_is_synced_in_the_second_run_of_a_lost_group(store: Store) -> None:
    runs: list[str] = []

    def lose_once(connection: WriterConnection) -> None:
        runs.append(read_sync(connection))
        if len(runs) == 1:
            connection.execute("ROLLBACK")

    await store.write(lose_once, is_synced=False)
    assert runs == ["normal", "full"]


async def test_events_of_a_failed_op_are_never_published(store: Store) -> None:
    events: list[Event] = []
    store.on_events = events.extend
    emit = [lambda connection, n=n: connection.emit("kept", None, n=n) for n in range(3)]
    await gathered(store, emit[0], put_then_raise("a", StateRefused("no")), emit[1], emit[2])
    assert [event.data["n"] for event in events] == [0, 1, 2]
    assert [event.id for event in events] == [row["id"] for row in await store.read("SELECT id FROM event")]


async def test_callers_are_answered_before_events_are_published(store: Store, path: Path, clock: SettableClock) -> None:
    seen: list[bool] = []
    direct = writer_on(path, clock, lambda events: seen.append(write.done()))
    await direct.open()
    write = direct.submit(lambda connection: connection.emit("state", None))
    await write
    assert seen == [True]
    await direct.close(10)


async def test_a_listener_that_raises_does_not_affect_callers(store: Store) -> None:
    complaints: list[BaseException | None] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context.get("exception")))

    def listen(events: list[Event]) -> None:
        raise ValueError("a broken subscriber")

    store.on_events = listen
    await store.write(lambda connection: connection.emit("state", None))
    await store.write(put("a"))
    assert [str(complaint) for complaint in complaints] == ["a broken subscriber"]


async def test_another_process_that_holds_the_database_makes_a_write_fail_after_the_busy_time(
    store: Store, path: Path
) -> None:
    await store.write(lambda connection: connection.execute("PRAGMA busy_timeout = 50"))
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            await store.write(put("a"))
        other.execute("ROLLBACK")
        assert await store.write(put("b")) == 1
    finally:
        other.close()


async def test_an_op_run_alone_that_cannot_begin_fails(store: Store, path: Path) -> None:
    """Another process takes the database after the group is lost; each op reports the lock."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    def lose(connection: WriterConnection) -> None:
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("ROLLBACK")
        other.execute("BEGIN IMMEDIATE")

    try:
        outcomes = await asyncio.gather(*(store.write(op) for op in (put("a"), lose)), return_exceptions=True)
        assert isinstance(outcomes[1], StoreError)
    finally:
        other.close()
    assert await store.write(put("c")) == 1
    assert await keys(store) == (["a", "c"] if outcomes[0] == 1 else ["c"])


def test_a_loop_that_was_closed_before_the_store_is_logged(
    path: Path, clock: SettableClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def begin_to_close() -> asyncio.Future[None]:
        direct = writer_on(path, clock, lambda events: None)
        await direct.open()
        write = direct.submit(gate)
        closing = asyncio.create_task(direct.close(10))
        await asyncio.to_thread(gate.entered.wait, 10)
        closing.cancel()
        await asyncio.wait({closing})
        return write

    gate, loop = Gate(), asyncio.new_event_loop()
    write = loop.run_until_complete(begin_to_close())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    gate.open.set()
    for thread in threading.enumerate():
        if thread.name == "zoea-writer":
            thread.join(10)
    assert not write.done()
    assert "closed before the store" in caplog.text


async def test_a_failed_checkpoint_keeps_the_log_and_all_rows(
    store: Store, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await store.write(put("a"))
    with closing(open_reader(path)) as reader:
        reader.execute("BEGIN")
        assert len(reader.execute("SELECT 1 FROM setting").fetchall()) == 1
        await store.write(lambda connection: connection.execute("PRAGMA busy_timeout = 10"))
        await store.close()
        assert path.with_name("zoea.db-wal").exists()
    with closing(open_reader(path)) as reader:
        assert len(reader.execute("SELECT 1 FROM setting").fetchall()) == 1


async def test_closing_finishes_queued_ops(store: Store, path: Path) -> None:
    writes = [asyncio.create_task(store.write(put(f"{n:03}"))) for n in range(500)]
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*writes) == [1] * 500
    with closing(open_reader(path)) as reader:
        assert reader.execute("SELECT count(*) FROM setting").fetchone()[0] == 500


async def test_a_closed_store_refuses_everything(store: Store) -> None:
    await store.close()
    await store.close()
    with pytest.raises(StoreClosed):
        await store.write(put("a"))
    with pytest.raises(StoreClosed):
        await store.read("SELECT 1")
    with pytest.raises(StoreClosed):
        async with store.search_reader():
            raise AssertionError("it was opened")


async def test_closing_leaves_one_file_and_no_thread(store: Store, path: Path) -> None:
    await store.write(put("a"))
    await store.close()
    assert [file.name for file in path.parent.iterdir()] == ["zoea.db"]
    assert "zoea-writer" not in [thread.name for thread in threading.enumerate()]


async def test_closing_interrupts_an_endless_statement_at_its_deadline(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "INTERRUPTED_S", 30.0)
    started = threading.Event()

    def endless(connection: WriterConnection) -> object:
        started.set()
        return connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
            " INSERT INTO setting SELECT 'endless', '1', count(*) FROM n"
        )

    stuck = asyncio.create_task(store.write(endless))
    await asyncio.to_thread(started.wait, 10)
    queued = asyncio.create_task(store.write(put("late")))
    await asyncio.sleep(0)
    await store.close(deadline_s=0.05)
    outcomes = await asyncio.gather(stuck, queued, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreClosed, StoreClosed]


async def test_closing_gives_up_on_an_op_that_never_returns(store: Store) -> None:
    gate = Gate()
    stuck = asyncio.create_task(store.write(gate))
    await asyncio.to_thread(gate.entered.wait, 10)
    with pytest.raises(StoreError, match="did not end"):
        await store.close(deadline_s=0.01)
    gate.open.set()
    await stuck
