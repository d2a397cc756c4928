"""A stored turn that is carried out, and what its driver calls of the mysis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from zoea.context import FrozenTurn
from zoea.model.values import Mysis
from zoea.store import WriterConnection
from zoea.swarm.commit_capture import CommitCapture
from zoea.swarm.persistence import turn_records
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


class TurnOwner(Protocol):
    """The mysis of a turn, as the driver calls it."""

    capture: CommitCapture

    def taken(self, delivery_ids: tuple[int, ...]) -> None:
        """Remove deliveries from the inbox because they joined the turn."""
        ...

    async def end_turn(self, end: t.TurnEnd) -> Callable[[WriterConnection], Mysis | None] | None:
        """Return what to write in the op that ends the turn; None to leave the mysis as it is."""
        ...

    def take_stored_end(self, mysis: Mysis | None) -> None:
        """Take the end as stored, with the row of the mysis where its state changed."""
        ...
