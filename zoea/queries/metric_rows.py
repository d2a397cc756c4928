"""Reads what happened since the last reading, as numbers for metrics.

Counters are made from stored rows and not on the way of a turn, so that nothing waits for them. Labels are kinds,
outcomes, providers and models: never a name or id of a mysis, and never a text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from zoea.model.enums import RequestState
from zoea.queries.stored_swarm import open_database

_PAGE = 2000
_REQUESTS = """
SELECT id, provider, model, state, coalesce(error_class, '') AS error_class, input_tokens, cached_tokens, output_tokens,
  reasoning_tokens, cost_micros, duration_us, state = 'reserved' AS is_open FROM request
"""
_TURNS = """
SELECT id, opened_by, nudge_level, outcome, coalesce(ended_at, 0) - opened_at AS duration_us, outcome IS NULL AS is_open
FROM turn
"""
_CALLS = "SELECT id, upstream, state, result_memory_id IS NULL AS is_open FROM tool_call"
_EVENTS = "SELECT id, kind, data, 0 AS is_open FROM event"
_WATCHED = "kind IN ('context.summary', 'context.summary_skipped')"
_MYSES = "SELECT state, count(*) FROM mysis WHERE deleted_at IS NULL GROUP BY state"
_INBOX = "SELECT count(*) FROM delivery WHERE state = 'pending'"


class _Table(Struct):
    """How far a table was read, and which of its rows were not complete then."""

    name: str
    select: str
    where: str = "1"
    last_id: int = 0
    open_ids: set[int] = field(default_factory=set)

    def skip_all(self, reader: sqlite3.Connection) -> None:
        """Begin reading at rows that are stored from now on."""
        self.last_id = reader.execute(f"SELECT coalesce(max(id), 0) FROM {self.name}").fetchone()[0]

    def read(self, reader: sqlite3.Connection) -> Iterator[sqlite3.Row]:
        """Yield the rows that are complete now and were not at the last reading."""
        for one in sorted(self.open_ids):
            row = reader.execute(f"{self.select} WHERE id = ?", (one,)).fetchone()
            if row is None or not row["is_open"]:
                self.open_ids.discard(one)
                if row is not None:
                    yield row
        while rows := reader.execute(
            f"{self.select} WHERE id > ? AND {self.where} ORDER BY id LIMIT {_PAGE}", (self.last_id,)
        ).fetchall():
            self.last_id = rows[-1]["id"]
            for row in rows:
                if row["is_open"]:
                    self.open_ids.add(row["id"])
                else:
                    yield row


class FinishedRequest(Struct, frozen=True):
    """One call of a model. `outcome` is answered, refused, cancelled, or the class of its error."""

    provider: str
    model: str
    outcome: str
    tokens: dict[str, int]
    cost_micros: int
    seconds: float | None


class MetricRows(Struct, frozen=True):
    """Holds the events completed since the last reading, and the present numbers."""

    requests: list[FinishedRequest]
    turns: list[tuple[str, float]]
    nudges: list[int]
    calls: list[tuple[str, str]]
    summaries: list[dict[str, object]]
    myses: dict[str, int]
    inbox: int


class MetricReader:
    """Reads the database from where it was read last.

    Args:
        is_from_now: Leave out what is stored already.
    """

    def __init__(self, database: Path, *, is_from_now: bool) -> None:
        self._database = database
        self._requests = _Table("request", _REQUESTS)
        self._turns = _Table("turn", _TURNS)
        self._calls = _Table("tool_call", _CALLS)
        self._events = _Table("event", _EVENTS, _WATCHED)
        self._nudged = 0
        if is_from_now:
            with open_database(database) as reader:
                for table in (self._requests, self._turns, self._calls, self._events):
                    table.skip_all(reader)
                self._nudged = self._turns.last_id

    def read(self) -> MetricRows:
        """Read the new rows. Raises StoreError."""
        with open_database(self._database) as reader:
            rows = MetricRows(
                requests=[_finished(row) for row in self._requests.read(reader)],
                turns=[(row["outcome"], row["duration_us"] / 1_000_000) for row in self._turns.read(reader)],
                nudges=self._read_nudges(reader),
                calls=[(row["upstream"] or "zoea", row["state"]) for row in self._calls.read(reader)],
                summaries=[{"kind": row["kind"], "data": row["data"]} for row in self._events.read(reader)],
                myses={row[0]: row[1] for row in reader.execute(_MYSES)},
                inbox=reader.execute(_INBOX).fetchone()[0],
            )
            reader.execute("COMMIT")
        return rows

    def _read_nudges(self, reader: sqlite3.Connection) -> list[int]:
        """Return the levels of nudges that opened a turn, open turns included."""
        rows = reader.execute(
            "SELECT id, opened_by, nudge_level FROM turn WHERE id > ? AND id <= ?", (self._nudged, self._turns.last_id)
        ).fetchall()
        self._nudged = self._turns.last_id
        return [row["nudge_level"] for row in rows if row["opened_by"] == "nudge"]


def _finished(row: sqlite3.Row) -> FinishedRequest:
    match row["state"]:
        case RequestState.REFUSED:
            outcome = "refused"
        case RequestState.RELEASED:
            outcome = row["error_class"] or "cancelled"
        case _:
            outcome = "answered"
    kinds = ("input", "cached", "output", "reasoning")
    return FinishedRequest(
        provider=row["provider"],
        model=row["model"],
        outcome=outcome,
        tokens={kind: row[f"{kind}_tokens"] for kind in kinds if row[f"{kind}_tokens"]},
        cost_micros=row["cost_micros"] or 0,
        seconds=None if row["duration_us"] is None else row["duration_us"] / 1_000_000,
    )
