"""Reads the numbers of the last hour, day or week, for charts and `zoea stats`."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from zoea.queries.stored_swarm import open_database

_MINUTE_US = 60_000_000
_BEFORE = "SELECT * FROM minute_stat WHERE minute < ? ORDER BY minute DESC LIMIT 1"
_WITHIN = "SELECT * FROM minute_stat WHERE minute >= ? AND minute <= ? ORDER BY minute"


class StatSpan(StrEnum):
    """The time that statistics cover."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"

    @property
    def minutes(self) -> int:
        return {StatSpan.HOUR: 60, StatSpan.DAY: 24 * 60, StatSpan.WEEK: 7 * 24 * 60}[self]

    @property
    def step(self) -> int:
        """Minutes of one point."""
        return {StatSpan.HOUR: 1, StatSpan.DAY: 15, StatSpan.WEEK: 120}[self]


class StatPoint(Struct, frozen=True):
    """The work of the swarm in `minutes` minutes from `at` (µs since the epoch, UTC).

    Attributes:
        tokens, cost_micros: Used in this time.
        turns: Turns that ended, by outcome.
        statuses: Myses by status at the end; empty while no swarm ran.
        waiting: Messages that no turn had taken at the end.
    """

    at: int
    minutes: int
    tokens: int
    cost_micros: int
    turns: Mapping[str, int]
    statuses: Mapping[str, int]
    waiting: int

    @property
    def tokens_per_minute(self) -> float:
        return self.tokens / self.minutes


class SwarmStats(Struct, frozen=True):
    """The points of a span, oldest first."""

    span: StatSpan
    points: tuple[StatPoint, ...]

    @property
    def tokens(self) -> int:
        return sum(point.tokens for point in self.points)

    @property
    def cost_micros(self) -> int:
        return sum(point.cost_micros for point in self.points)

    @property
    def turns(self) -> Counter[str]:
        """Turns of the whole span by outcome."""
        found: Counter[str] = Counter()
        for point in self.points:
            found.update(point.turns)
        return found


def read_stats(database: Path, span: StatSpan, now: int) -> SwarmStats:
    """Read the points of a span up to `now`, in µs UTC. Raises StoreError."""
    last = now // _MINUTE_US
    first = (last - span.minutes) // span.step * span.step + span.step
    with open_database(database) as reader:
        before = reader.execute(_BEFORE, (first,)).fetchone()
        rows = reader.execute(_WITHIN, (first, last)).fetchall()
    found: dict[int, list[_Minute]] = {}
    tokens, cost = (before["tokens"], before["cost_micros"]) if before is not None else (None, None)
    for row in rows:
        minute = _Minute.of(row, tokens, cost)
        tokens, cost = row["tokens"], row["cost_micros"]
        found.setdefault(row["minute"] // span.step * span.step, []).append(minute)
    starts = range(first, last + 1, span.step)
    return SwarmStats(span, tuple(_point(start, span.step, found.get(start, [])) for start in starts))


class _Minute(Struct, frozen=True):
    """One stored row, with the tokens and money used since the row before."""

    tokens: int
    cost_micros: int
    turns: dict[str, int]
    statuses: dict[str, int]
    waiting: int

    @classmethod
    def of(cls, row: sqlite3.Row, tokens: int | None, cost: int | None) -> _Minute:
        # Totals fall where deleted myses were purged; nothing was used then.
        return cls(
            max(0, row["tokens"] - tokens) if tokens is not None else 0,
            max(0, row["cost_micros"] - cost) if cost is not None else 0,
            json.loads(row["outcomes"]),
            json.loads(row["statuses"]),
            row["waiting"],
        )


def _point(start: int, step: int, minutes: list[_Minute]) -> StatPoint:
    turns: Counter[str] = Counter()
    for minute in minutes:
        turns.update(minute.turns)
    return StatPoint(
        at=start * _MINUTE_US,
        minutes=step,
        tokens=sum(minute.tokens for minute in minutes),
        cost_micros=sum(minute.cost_micros for minute in minutes),
        turns=dict(turns),
        statuses=minutes[-1].statuses if minutes else {},
        waiting=minutes[-1].waiting if minutes else 0,
    )
