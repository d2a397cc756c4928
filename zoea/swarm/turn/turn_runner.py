"""The protocol of a turn runner: Zoea's own loop, or an external agent.

A runner opens or resumes a turn and carries it on. It returns the op that closes the turn, and does not store it: the
loop of the mysis commits that op together with what follows from it, so that no crash comes between.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from zoea.context import FrozenTurn
from zoea.model.enums import Outcome
from zoea.model.values import Mysis
from zoea.store.writer_connection import WriterConnection
from zoea.swarm import life as lf
from zoea.swarm.commit_capture import CommitCapture
from zoea.swarm.persistence import turn_records
from zoea.swarm.resolved_template import ResolvedTemplate
from zoea.swarm.turn import turn_types as t


class DrivenTurn(Struct, frozen=True):
    """The stored turn that a driver carries out.

    Attributes:
        before: What the op that opened it read for its plans; None where the turn is resumed.
    """

    turn_id: int
    number: int
    hop: int
    frozen: FrozenTurn
    used_tokens: int
    by_person: bool
    before: turn_records.BeforeTurn | None = None


class TurnWrite(Struct, frozen=True):
    """A prepared op of a turn. `write` stores it; `settle` takes the result once it is durable."""

    write: Callable[[WriterConnection], Any]
    settle: Callable[[Any], Any]


class StoredOp(NamedTuple):
    """A stored op, with the counters of its mysis, the turn's tokens, and `Clock.ahead` then."""

    stored: t.OpStored
    tally: sqlite3.Row
    used: int
    ahead: int


class TurnClosing(Struct, frozen=True):
    """The end of a turn, which is not stored yet.

    Attributes:
        prepare: Makes the op that closes the turn ready; None where no turn was stored.
        leave_open: Returns what leaves the turn as after a crash, where that op failed.
    """

    end: t.TurnEnd
    prepare: Callable[[], Awaitable[TurnWrite]] | None = None
    leave_open: Callable[[Exception], Awaitable[TurnClosing]] | None = None


class TurnOpening(Struct, frozen=True):
    """What a new turn is opened with: prompts or a nudge.

    Attributes:
        stored_life: The part of the life that is stored in the same op.
        goal: The goal that is not reached yet, "" for none.
    """

    prompts: tuple[lf.Pending, ...]
    nudge_level: int
    stored_life: lf.StoredLife
    session_id: int | None
    goal: str


class TurnOwner(Protocol):
    """The mysis of a turn, as its runner calls it."""

    mysis: Mysis
    known: ResolvedTemplate
    capture: CommitCapture

    def taken(self, delivery_ids: tuple[int, ...]) -> None:
        """Remove deliveries from the inbox because they joined the turn."""
        ...

    def left(self, prompts: tuple[lf.Pending, ...]) -> None:
        """Put prompts back into the inbox, because the turn had no room for them."""
        ...

    def note_tools(self, has_tools: bool) -> None:
        """Note whether its agent has Zoea's tools; without them it rests after each answer."""
        ...

    def waiting_steers(self) -> tuple[int, ...]:
        """Return deliveries that are to join the turn before its next request."""
        ...


class TurnRunner(Protocol):
    """Runs the turns of one mysis, one after another."""

    @property
    def is_open(self) -> bool:
        """Whether a turn is stored and runs, so that its prompts are taken."""
        ...

    async def open(self, opening: TurnOpening) -> TurnClosing:
        """Open a turn and run it to its end. Cancelling this leaves a stored turn open. Raises ZoeaError."""
        ...

    async def resume(self) -> TurnClosing:
        """Do the same with the turn that broke off."""
        ...

    def steer(self, delivery_id: int) -> None:
        """Let a message join the open turn before its next request."""
        ...

    def cancel(self, outcome: Outcome) -> bool:
        """End the turn with this outcome; return False where that takes cancelling `open` or `resume`."""
        ...

    def adopt(self, body: str) -> None:
        """Use another template from the next turn on."""
        ...

    def close(self) -> None:
        """Forget the turn, because its closing is stored."""
        ...

    async def end(self) -> None:
        """Let go of what outlasts a turn: sessions of tools, a process."""
        ...
