"""Reads how each turn spent its time: model calls, tools, waits."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from zoea.queries.stored_swarm import open_database

TURNS = 200
"""Turns that are read at most, the newest."""
_TURNS = "SELECT id, number, opened_at, ended_at, outcome FROM turn WHERE mysis_id = ? ORDER BY number DESC LIMIT ?"
_REQUESTS = """
SELECT q.turn_id, coalesce(q.ended_at - q.duration_us, q.created_at) AS began, coalesce(q.ended_at, ?) AS ended
FROM request q WHERE q.mysis_id = ? AND q.turn_id >= ? AND q.state <> 'refused'
"""
_CALLS = """
SELECT m.turn_id, k.started_at AS began, coalesce(k.ended_at, ?) AS ended
FROM memory m JOIN tool_call k ON k.memory_id = m.id
WHERE m.mysis_id = ? AND m.turn_id >= ? AND k.started_at IS NOT NULL AND k.name NOT IN ('zoea_wait', 'zoea_ask')
"""
"""A call that waits for time or for the commander is no work of a tool."""

Interval = tuple[int, int]


class TurnWork(StrEnum):
    """What a turn's time went to; of two at once the first counts."""

    MODEL = "model"
    TOOLS = "tools"
    WAITING = "waiting"


class TurnSpan(Struct, frozen=True):
    """An unbroken time of one kind, in µs UTC."""

    work: TurnWork
    began: int
    ended: int


class TurnTime(Struct, frozen=True):
    """One turn. `outcome` is empty while it is open, and `ended_at` then the time of reading.

    Attributes:
        spans: What its time went to, in order, without gaps.
    """

    number: int
    opened_at: int
    ended_at: int
    outcome: str
    spans: tuple[TurnSpan, ...]

    @property
    def length(self) -> int:
        return self.ended_at - self.opened_at

    def sum_up(self, work: TurnWork) -> int:
        """Return the µs of one kind."""
        return sum(span.ended - span.began for span in self.spans if span.work is work)


def read_turn_times(database: Path, mysis_id: int, now: int, limit: int = TURNS) -> tuple[TurnTime, ...]:
    """Read the newest turns of a mysis, newest first. Raises StoreError.

    Args:
        now: The time in µs, up to which an open turn is counted.
    """
    with open_database(database) as reader:
        turns = reader.execute(_TURNS, (mysis_id, limit)).fetchall()
        first = min((row["id"] for row in turns), default=0)
        requests = _by_turn(reader.execute(_REQUESTS, (now, mysis_id, first)))
        calls = _by_turn(reader.execute(_CALLS, (now, mysis_id, first)))
    return tuple(
        TurnTime(
            row["number"],
            row["opened_at"],
            ended := max(row["opened_at"], row["ended_at"] or now),
            row["outcome"] or "",
            split_turn(row["opened_at"], ended, requests.get(row["id"], ()), calls.get(row["id"], ())),
        )
        for row in turns
    )


def _by_turn(rows: Iterable[sqlite3.Row]) -> dict[int, list[Interval]]:
    intervals: dict[int, list[Interval]] = {}
    for row in rows:
        intervals.setdefault(row["turn_id"], []).append((row["began"], row["ended"]))
    return intervals


def split_turn(began: int, ended: int, model: Sequence[Interval], tools: Sequence[Interval]) -> tuple[TurnSpan, ...]:
    """Split the time of a turn into spans. Where a model answered while tools ran, it counts as the model's."""
    edges = {began, ended, *(edge for pair in (*model, *tools) for edge in pair if began < edge < ended)}
    borders = sorted(edges)
    spans: list[TurnSpan] = []
    for left, right in itertools.pairwise(borders):
        work = TurnWork.WAITING
        for kind, intervals in ((TurnWork.TOOLS, tools), (TurnWork.MODEL, model)):
            if any(start <= left and right <= end for start, end in intervals):
                work = kind
        if spans and spans[-1].work is work:
            spans[-1] = TurnSpan(work, spans[-1].began, right)
        else:
            spans.append(TurnSpan(work, left, right))
    return tuple(spans)
