"""Reads the numbers of the last hour, day or week, for charts and `zoea stats`."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct

from zoea.queries.stored_swarm import open_database
from zoea.swarm.persistence import stat_ops

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
    def is_known(self) -> bool:
        """Whether a swarm ran in this time, so that 0 is a count."""
        return bool(self.statuses or self.tokens or self.turns)

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


def read_stats(database: Path, span: StatSpan, now: int, present: Mapping[str, int] | None = None) -> SwarmStats:
    """Read the points of a span up to `now`, in µs UTC. Raises StoreError.

    Args:
        present: Myses by status at this moment. With it the present minute, which is stored at its end, counts too.
    """
    last = now // _MINUTE_US
    first = (last - span.minutes) // span.step * span.step + span.step
    with open_database(database) as reader:
        before = reader.execute(_BEFORE, (first,)).fetchone()
        rows: list[Mapping[str, Any]] = reader.execute(_WITHIN, (first, last)).fetchall()
        if present:
            stored = rows[-1] if rows else before
            rows = [row for row in rows if row["minute"] != last]
            rows.append(_read_present(reader, last, stored, present))
    minutes: dict[int, list[_Minute]] = {}
    tokens, cost = (before["tokens"], before["cost_micros"]) if before is not None else (None, None)
    for row in rows:
        minute = _Minute.of(row, tokens, cost)
        tokens, cost = row["tokens"], row["cost_micros"]
        minutes.setdefault(row["minute"] // span.step * span.step, []).append(minute)
    starts = range(first, last + 1, span.step)
    return SwarmStats(span, tuple(_point(start, span.step, minutes.get(start, [])) for start in starts))


def _read_present(
    reader: sqlite3.Connection, minute: int, stored: Mapping[str, Any] | None, statuses: Mapping[str, int]
) -> Mapping[str, Any]:
    """Return what would be stored of the present minute now.

    Args:
        stored: The newest row, which may be of this minute.
    """
    turns: Counter[str] = Counter()
    if stored is not None:
        turns.update({row["outcome"]: row["turns"] for row in reader.execute(stat_ops.ENDED, (stored["event_id"],))})
        if stored["minute"] == minute:
            turns.update(json.loads(stored["outcomes"]))
    totals = reader.execute(stat_ops.TOTALS).fetchone()
    return {
        "minute": minute,
        "tokens": totals["tokens"],
        "cost_micros": totals["cost"],
        "statuses": json.dumps(dict(statuses)),
        "outcomes": json.dumps(turns),
        "waiting": reader.execute(stat_ops.WAITING).fetchone()[0],
    }


class _Minute(Struct, frozen=True):
    """One stored row, with the tokens and money used since the row before."""

    tokens: int
    cost_micros: int
    turns: dict[str, int]
    statuses: dict[str, int]
    waiting: int

    @classmethod
    def of(cls, row: Mapping[str, Any], tokens: int | None, cost: int | None) -> _Minute:
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
