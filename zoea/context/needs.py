"""The reads a strategy asks for, as values, and their answers.

A driver fetches the answers of all needs in one read, without knowing the strategy.
"""

from __future__ import annotations

from dataclasses import dataclass

from zoea.model.values import Memory


@dataclass(frozen=True, slots=True)
class LatestSlice:
    """The latest complete loop slice among the `window` newest memories with id <= `before`.

    Answer: those memories, or a part that holds the slice; the strategy picks it.
    """

    before: int
    window: int


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """The final answer of the previous turn: its last assistant memory without calls.

    Answer: one memory or none.
    """

    before: int


@dataclass(frozen=True, slots=True)
class StandingOrder:
    """The newest user memory with id <= `before`, at any distance.

    Answer: one memory or none.
    """

    before: int


@dataclass(frozen=True, slots=True)
class TurnSoFar:
    """All memories and notes of the turn. Answer: a `TurnRecord`."""

    turn_id: int


Need = LatestSlice | LastAnswer | StandingOrder | TurnSoFar


@dataclass(frozen=True, slots=True)
class Note:
    """A loop or budget warning inserted right after the memory with `after_seq`."""

    after_seq: int
    kind: str
    content: str


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """The turn as stored so far, memories in conversation order."""

    memories: tuple[Memory, ...]
    notes: tuple[Note, ...] = ()


NeedAnswer = tuple[Memory, ...] | TurnRecord
