"""Limits how many turns advance at once; others queue by rank, then by age.

Without it a thousand runnable tasks delay a key press by seconds. A turn holds a place while
it plans and stores, not while it waits for a model or a tool. Extra places are reserved for
new prompts of a person.
"""

from __future__ import annotations

import asyncio
import heapq
from enum import IntEnum

from zoea.settings.schema import Settings


class Rank(IntEnum):
    """Order of the queue."""

    NEW_PROMPT = 0  # a person's prompt without a reaction yet
    PERSON = 1
    STEERED = 2
    OTHER = 3


def first_rank(by_person: bool, *, is_new: bool) -> Rank:
    """Return the rank in which a turn begins; a person's new prompts go first."""
    if by_person:
        return Rank.NEW_PROMPT if is_new else Rank.PERSON
    return Rank.OTHER


class TurnGate:
    """A limit of `places`, and `for_new_prompts` more for turns that a person opened."""

    def __init__(self, places: int, *, for_new_prompts: int = 0) -> None:
        self._places = places
        self._free = places  # below zero: places for new prompts that are taken
        self._for_new_prompts = for_new_prompts
        self._queue: list[tuple[Rank, int, asyncio.Future[None]]] = []
        self._count = 0

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def resize(self, places: int, *, for_new_prompts: int) -> None:
        """Change the limit; turns over a lower one keep their places until they leave."""
        self._free += places - self._places
        self._places, self._for_new_prompts = places, for_new_prompts
        self._admit()

    def place(self, rank: Rank) -> _Place:
        """Hold a place during an `async with` block."""
        return _Place(self, rank)

    async def enter(self, rank: Rank) -> None:
        if self._has_room(rank):
            self._free -= 1
            return
        self._count += 1
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._queue, (rank, self._count, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The place was granted as the caller was cancelled: pass it on.
                self.leave()
            raise

    def leave(self) -> None:
        self._free += 1
        self._admit()

    def _admit(self) -> None:
        while self._queue and self._has_room(self._queue[0][0]):
            _, _, turn = heapq.heappop(self._queue)
            if not turn.done():
                self._free -= 1
                turn.set_result(None)

    def _has_room(self, rank: Rank) -> bool:
        return self._free > (-self._for_new_prompts if rank is Rank.NEW_PROMPT else 0)


class _Place:
    """A place of the gate; a turn takes some eight, so it is no generator."""

    __slots__ = ("_gate", "_rank")

    def __init__(self, gate: TurnGate, rank: Rank) -> None:
        self._gate = gate
        self._rank = rank

    async def __aenter__(self) -> None:
        await self._gate.enter(self._rank)

    async def __aexit__(self, *_: object) -> None:
        self._gate.leave()


def count_places(settings: Settings) -> dict[str, int]:
    """Return the arguments of the turn gate."""
    places = settings.swarm.active_turns
    return {"places": places, "for_new_prompts": max(1, places // 4)}
