"""What a strategy wants from the store, as values, and what it gets.

A driver fetches the answers of all needs in one read and hands them back in a
mapping; it knows no strategy. Later needs (`Topic`, `Snapshot`, `Recall`,
`Summary`, `Materialized`) join the union, their answers the other one.
"""

from __future__ import annotations

from dataclasses import dataclass

from zoea.model.values import Memory


@dataclass(frozen=True, slots=True)
class LatestSlice:
    """The latest complete loop slice among the `window` newest memories with id <= `before`.

    Answer: those memories, or a part of them that holds the slice; the strategy picks it.
    """

    before: int
    window: int


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """The final answer of the turn before: its last assistant memory, without calls. Answer: one memory or none."""

    before: int


@dataclass(frozen=True, slots=True)
class StandingOrder:
    """The newest prompt source (a user memory) with id <= `before`, however far back. Answer: one memory or none."""

    before: int


@dataclass(frozen=True, slots=True)
class TurnSoFar:
    """Every memory and note of the turn. Answer: a `TurnRecord`."""

    turn_id: int


Need = LatestSlice | LastAnswer | StandingOrder | TurnSoFar


@dataclass(frozen=True, slots=True)
class Note:
    """What Zoea put into the turn (loop or budget warning), right after the memory with `after_seq`."""

    after_seq: int
    kind: str
    content: str


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """The turn as stored so far; memories in conversation order."""

    memories: tuple[Memory, ...]
    notes: tuple[Note, ...] = ()


NeedAnswer = tuple[Memory, ...] | TurnRecord
