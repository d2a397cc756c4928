"""The writer thread, which groups many small ops into one commit.

Waiting ops run in one transaction, each in its own savepoint; their callers continue after COMMIT.
Ops of what a person did run first, and their group is committed at once.
The next group gathers while one is synced to disk. If the transaction is lost (disk full, I/O
error), each op of the group runs again alone.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from time import perf_counter
from typing import Any

from msgspec import Struct, field

from zoea.model.errors import StoreClosed, StoreError, StoreMoved
from zoea.model.values import Event
from zoea.store.sqlite_errors import SQLITE_ERRORS, translate_write_error
from zoea.store.writer_connection import WriterConnection

GROUP_OPS = 256
GROUP_SECONDS = 0.02
URGENT_SECONDS = (
    0.004  # that a group goes on after an urgent op; ending at once would double the commits of a busy swarm
)
INTERRUPTED_S = 1.0
"""Seconds an interrupted statement may take to end when the store closes."""
_log = logging.getLogger(__name__)


COMMIT_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""Seconds by which the commits are counted."""


class WriterStats(Struct):
    """Totals since the store was opened, changed by the writer thread only.

    Attributes:
        ops: Acknowledged ops.
        seconds, longest: Time spent in COMMIT, in total and at most.
        failed: Ops that raised.
        lost: Groups that lost their transaction and were run again op by op.
        commit_counts: Commits within each of `COMMIT_BOUNDS`, and above the last.
    """

    commits: int = 0
    ops: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    failed: int = 0
    lost: int = 0
    commit_counts: list[int] = field(default_factory=lambda: [0] * (len(COMMIT_BOUNDS) + 1))

    def add_commit(self, ops: int, seconds: float) -> None:
        self.commits += 1
        self.ops += ops
        self.seconds += seconds
        self.commit_counts[bisect_left(COMMIT_BOUNDS, seconds)] += 1
        self.longest = max(self.longest, seconds)


class _Op:
    """A function of the connection, and its result; an `urgent` one ends its group soon."""

    __slots__ = ("call", "error", "future", "is_synced", "urgent", "value")

    def __init__(
        self, call: Callable[[WriterConnection], Any], future: asyncio.Future[Any], *, urgent: bool, is_synced: bool
    ) -> None:
        self.call = call
        self.future = future
        self.urgent = urgent
        self.is_synced = is_synced
        self.value: Any = None
        self.error: BaseException | None = None


class _TransactionLost(Exception):
    """The transaction was rolled back with all savepoints. The cause is a StoreError."""


class _NotBegun(Exception):
    """No transaction could be opened. The cause is a StoreError."""


class _Unconfirmed(Exception):
    """The database was moved during the COMMIT, so what it stored may be lost."""

    def __init__(self, error: StoreMoved) -> None:
        super().__init__(error.what)
        self.error = error


class _OpQueue:
    """Ops in the order they run: urgent ones before the others, each kind in submission order."""

    def __init__(self) -> None:
        self._urgent: deque[_Op] = deque()
        self._others: deque[_Op] = deque()
        self._tickets: SimpleQueue[bool] = SimpleQueue()  # one for each op, so that a thread can wait for them

    def put(self, op: _Op) -> None:
        (self._urgent if op.urgent else self._others).append(op)
        self._tickets.put(True)

    def end(self) -> None:
        """Make `get` return None after the last op is taken."""
        self._tickets.put(False)

    @property
    def is_empty(self) -> bool:
        return self._tickets.empty()

    def get(self) -> _Op | None:
        """Take the next op as soon as there is one, or None after the last."""
        if not self._tickets.get():
            return None
        return self._urgent.popleft() if self._urgent else self._others.popleft()


class Writer:
    """Runs ops in their order, urgent ones first. Only its thread uses the connection.

    Args:
        connect: Opens the connection; called in the thread.
        on_events: Called on the loop with the events of each committed group.
        on_moved: Called on the loop where the database was moved during a COMMIT: the ops wait until it is back.
        before_commit: Called in the thread before each COMMIT, for work that is cheaper once per group.
    """

    def __init__(
        self,
        connect: Callable[[], WriterConnection],
        stats: WriterStats,
        on_events: Callable[[list[Event]], None],
        on_moved: Callable[[StoreMoved], None],
        before_commit: Callable[[WriterConnection], None],
    ) -> None:
        self._connect = connect
        self._before_commit = before_commit
        self._stats = stats
        self._on_events = on_events
        self._on_moved = on_moved
        self._unconfirmed: list[tuple[list[_Op], list[Event]]] = []
        self._queue = _OpQueue()
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._ending = False
        self._abandoned = False
        self._is_synced = True
        self._connection: WriterConnection
        # A daemon, so that a process can exit without closing the store; nothing acknowledged is lost.
        self._thread = threading.Thread(target=self._run, name="zoea-writer", daemon=True)

    async def open(self) -> None:
        """Start the thread and its connection; raise the error of `connect` if it fails."""
        self._thread.start()
        await asyncio.shield(self._opened)

    def submit(
        self, call: Callable[[WriterConnection], Any], *, urgent: bool = False, is_synced: bool = True
    ) -> asyncio.Future[Any]:
        """Queue an op; the future resolves after the COMMIT that holds it.

        An `urgent` op runs before the others that wait, and its group ends soon after it. One that is not
        `is_synced` is committed without waiting for the disk where no other op waits.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        self._queue.put(_Op(call, future, urgent=urgent, is_synced=is_synced))
        return future

    async def close(self, deadline_s: float) -> None:
        """Run the queued ops, then end the thread.

        At the deadline the running statement is interrupted, and ops still queued fail with StoreClosed.

        Raises:
            StoreError: The thread did not end in time.
        """
        self._queue.end()
        done, _ = await asyncio.wait({self._ended}, timeout=deadline_s)
        if not done:
            self._abandoned = True
            if self._opened.done():
                self._connection.interrupt()
            done, _ = await asyncio.wait({self._ended}, timeout=INTERRUPTED_S)
        if not done:
            raise StoreError(
                f"the writer did not end within {deadline_s + INTERRUPTED_S:g} s; what it was doing is lost"
            )
        self._thread.join(1.0)

    # The methods below run in the thread, except `_settle`.

    def _run(self) -> None:
        try:
            self._connection = self._connect()
        except BaseException as error:  # noqa: BLE001 - raised again where the store is opened
            self._call_on_loop(_reject, self._opened, error)
            self._call_on_loop(_resolve, self._ended)
            return
        self._call_on_loop(_resolve, self._opened)
        try:
            while not self._ending and (op := self._queue.get()) is not None:
                if self._abandoned:
                    self._refuse(op)
                else:
                    self._run_group(op)
            self._end_unconfirmed()
            try:  # one file then holds everything
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except SQLITE_ERRORS as error:
                _log.warning("the write-ahead log stays until the next start: %s", error)
        finally:
            self._connection.close()
            self._call_on_loop(_resolve, self._ended)

    def _run_group(self, first: _Op) -> None:
        """Run and commit this op and those waiting behind it, within a group's limits."""
        ops = [first]
        try:
            seconds = self._run_transaction(ops)
        except _TransactionLost as lost:
            self._stats.lost += 1
            _log.warning("a group of %d ops lost its transaction, each runs again alone: %s", len(ops), lost)
            for op in ops:
                self._run_alone(op)
        except _NotBegun as error:
            for op in ops:
                op.error = op.error or error.__cause__
            self._settle_later(ops, 0.0)
        except _Unconfirmed as error:
            self._keep_unconfirmed(ops, error)
        else:
            self._settle_later(ops, seconds)

    def _run_transaction(self, ops: list[_Op]) -> float:
        """Run ops in one transaction, adding those that wait; return the seconds of its COMMIT."""
        is_synced = ops[0].is_synced or not self._queue.is_empty
        self._begin(is_synced=is_synced)
        end = perf_counter() + GROUP_SECONDS
        op: _Op | None = ops[0]
        while op is not None:
            if op is ops[0]:
                self._run_first(op, is_synced=is_synced)
            else:
                self._run_in_savepoint(op)
            if op.urgent:
                end = min(end, perf_counter() + URGENT_SECONDS)
            if not is_synced or len(ops) >= GROUP_OPS or perf_counter() >= end:
                break
            op = None
            if not self._queue.is_empty:  # only this thread takes from it
                op = self._queue.get()
                self._ending = op is None
            if op is not None:
                ops.append(op)
        seconds = self._commit()
        if not is_synced:
            with suppress(*SQLITE_ERRORS):  # the next group does it again
                self._set_synced(True)  # now, because the code for it is in the processor's caches
        return seconds

    def _run_first(self, op: _Op, *, is_synced: bool) -> None:
        """Run the first op of a group: the transaction is its savepoint."""
        has_run = self._run_op(op)
        if not self._connection.in_transaction:
            self._roll_back()
            what = op.error or StoreError("an op ended the transaction of its group")
            raise _TransactionLost(str(what)) from what
        if not has_run:
            self._roll_back()
            self._begin(is_synced=is_synced)

    def _run_in_savepoint(self, op: _Op) -> None:
        connection = self._connection
        mark = len(connection.events)
        try:
            connection.execute("SAVEPOINT op")
            if not self._run_op(op):
                connection.execute("ROLLBACK TO op")
                del connection.events[mark:]
            connection.execute("RELEASE op")
        except SQLITE_ERRORS as error:
            self._roll_back()
            raise _TransactionLost(str(op.error or error)) from translate_write_error(error)

    def _run_alone(self, op: _Op) -> None:
        """Run an op of a lost group in a transaction of its own."""
        if self._abandoned:
            return self._refuse(op)
        op.value, op.error = None, None
        seconds = 0.0
        try:
            self._begin()
            if self._run_op(op):
                seconds = self._commit()
            else:
                self._roll_back()
        except (_NotBegun, _TransactionLost) as error:
            op.error = error.__cause__
        except _Unconfirmed as error:
            return self._keep_unconfirmed([op], error)
        return self._settle_later([op], seconds)

    def _run_op(self, op: _Op) -> bool:
        """Run the function of an op; return False if it raised."""
        self._connection.reset_now()
        try:
            op.value = op.call(self._connection)
            if isinstance(op.value, sqlite3.Cursor):
                op.value.close()  # its rows belong to this thread and this transaction
        except SQLITE_ERRORS as error:
            op.error = translate_write_error(error)
        except BaseException as error:  # noqa: BLE001 - only the caller of this op gets it
            op.error = error
            if isinstance(error, StopIteration) or not isinstance(error, Exception):  # no future can carry these
                op.error = RuntimeError(f"an op raised {type(error).__name__}")
                op.error.__cause__ = error
        return op.error is None

    def _begin(self, *, is_synced: bool = True) -> None:
        try:
            self._set_synced(is_synced)
            self._connection.execute("BEGIN IMMEDIATE")
        except SQLITE_ERRORS as error:
            raise _NotBegun from translate_write_error(error)

    def _set_synced(self, is_synced: bool) -> None:
        """Say whether the next COMMIT waits for the disk. Only between transactions."""
        if is_synced is not self._is_synced:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
            self._is_synced = is_synced

    def _commit(self) -> float:
        begun = perf_counter()
        try:
            self._before_commit(self._connection)
            self._connection.check_files()
            self._connection.execute("COMMIT")
        except StoreError as error:
            self._roll_back()
            raise _TransactionLost(str(error)) from error
        except SQLITE_ERRORS as error:
            self._roll_back()
            raise _TransactionLost(str(error)) from translate_write_error(error)
        except Exception as error:  # noqa: BLE001 - the thread goes on; the callers of the ops get the error
            self._roll_back()
            raise _TransactionLost(str(error)) from StoreError(f"the written rows cannot be indexed: {error!r}")
        seconds = perf_counter() - begun
        try:
            self._connection.check_files()
        except StoreMoved as error:
            raise _Unconfirmed(error) from error
        self._confirm()
        return seconds

    def _keep_unconfirmed(self, ops: list[_Op], error: _Unconfirmed) -> None:
        """Acknowledge a committed group only once its database is back.

        Callers that got an error would write again, and their ops would be stored twice.
        """
        self._unconfirmed.append((ops, self._connection.events))
        self._connection.events = []
        self._call_on_loop(self._on_moved, error.error)

    def _confirm(self) -> None:
        """Acknowledge the commits made while the database was moved, now that it is back."""
        for ops, events in self._unconfirmed:
            self._stats.add_commit(sum(op.error is None for op in ops), 0.0)
            self._call_on_loop(self._settle, ops, events)
        self._unconfirmed.clear()

    def _end_unconfirmed(self) -> None:
        """Acknowledge the groups that wait where the database is back, else fail them."""
        try:
            self._connection.check_files()
        except StoreMoved as error:
            for ops, _ in self._unconfirmed:
                for op in ops:
                    op.error = op.error or error
                self._call_on_loop(self._settle, ops, [])
            self._unconfirmed.clear()
        else:
            self._confirm()

    def _roll_back(self) -> None:
        """Roll back the transaction if one is open, and drop its events."""
        self._connection.events.clear()
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except SQLITE_ERRORS as error:
                _log.warning("rolling back failed: %s", error)

    def _refuse(self, op: _Op) -> None:
        op.value, op.error = None, StoreClosed("the store was closed before this was written")
        self._settle_later([op], 0.0)

    def _settle_later(self, ops: list[_Op], seconds: float) -> None:
        done = sum(op.error is None for op in ops)
        self._stats.failed += len(ops) - done
        if done:
            self._stats.add_commit(done, seconds)
        events = self._connection.events
        self._connection.events = []
        self._call_on_loop(self._settle, ops, events)

    def _call_on_loop(self, call: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            _log.warning("the event loop was closed before the store")

    def _settle(self, ops: list[_Op], events: list[Event]) -> None:
        for op in ops:
            future = op.future
            if future.cancelled():
                if op.error is not None:
                    _log.warning("an op of a cancelled caller failed: %r", op.error)
            elif op.error is not None:
                future.set_exception(op.error)
            else:
                future.set_result(op.value)
        if events:
            self._on_events(events)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _reject(future: asyncio.Future[None], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
