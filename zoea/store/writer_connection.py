"""The connection an op gets: SQLite's, with a clock and events, but without commit."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from zoea.model.errors import StoreError
from zoea.model.values import Event

_INSERT_EVENT = "INSERT INTO event(mysis_id, kind, data, created_at) VALUES (?, ?, ?, ?)"


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block in one `BEGIN IMMEDIATE` transaction; roll back if it raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check_nothing() -> None:
    """Accept any file, for a connection that was not opened by the store."""


class WriterConnection(sqlite3.Connection):
    """The only connection that writes. Rows are `sqlite3.Row`.

    An op shares its transaction with other ops, so any call that would end it raises StoreError. Only
    the writer thread may use it.

    Attributes:
        check_files: Raises StoreMoved unless the open files are those of the path; called before and after COMMIT.
    """

    clock_now: Callable[[], int]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.row_factory = sqlite3.Row
        self.events: list[Event] = []
        self._now: int | None = None
        self.check_files: Callable[[], None] = _check_nothing

    def now(self) -> int:
        """Return the time of the op, µs UTC; constant within an op."""
        if self._now is None:
            self._now = self.clock_now()
        return self._now

    def insert(self, sql: str, values: Sequence[Any]) -> int:
        """Run an INSERT into a table with row ids; return the new row's id."""
        row_id = self.execute(sql, values).lastrowid
        assert row_id is not None, "an INSERT into a rowid table has a row id"
        return row_id

    def emit(self, kind: str, mysis_id: int | None, **data: str | int | float | bool | None) -> int:
        """Store an event, to be published after the commit; return its id.

        `data` holds ids, numbers and fixed texts, never message text.
        """
        now = self.now()
        event_id = self.insert(_INSERT_EVENT, (mysis_id, kind, json.dumps(data), now))
        self.events.append(Event(event_id, kind, mysis_id, data, now))
        return event_id

    def reset_now(self) -> None:
        """Forget the time of the op; the writer calls it between ops."""
        self._now = None

    def commit(self) -> NoReturn:
        raise StoreError("an op cannot commit: the store does, for all ops of its group")

    def rollback(self) -> NoReturn:
        raise StoreError("an op cannot roll back: raise an error, and the store does")

    def executescript(self, sql_script: str, /) -> NoReturn:
        raise StoreError("an op cannot run a script: SQLite would commit before it")
