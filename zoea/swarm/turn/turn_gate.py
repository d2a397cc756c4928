"""How many turns advance at once. The rest queue: opened by a person, then steered, then oldest.

Without it a thousand runnable tasks delay a key press by seconds. A place is held
while a turn plans and stores, never while it waits for a model or a tool. A few more
places are for new prompts of persons alone: who writes to a busy swarm waits for nobody.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import IntEnum


class Rank(IntEnum):
    """Who goes first when places are short."""

    NEW_PROMPT = 0  # a person's prompt that has had no reaction yet
    PERSON = 1
    STEERED = 2
    OTHER = 3


class TurnGate:
    """`places` turns at once, and `for_new_prompts` more that a person has just opened."""

    def __init__(self, places: int, *, for_new_prompts: int = 0) -> None:
        self._free = places  # below zero: so many of the places for new prompts are taken
        self._for_new_prompts = for_new_prompts
        self._queue: list[tuple[Rank, int, asyncio.Future[None]]] = []
        self._count = 0

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @asynccontextmanager
    async def place(self, rank: Rank) -> AsyncIterator[None]:
        """Wait for a place, and give it back at the end of the block."""
        await self.enter(rank)
        try:
            yield
        finally:
            self.leave()

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
                # The place was given just as the caller was cancelled: pass it on.
                self.leave()
            raise

    def leave(self) -> None:
        self._free += 1
        while self._queue and self._has_room(self._queue[0][0]):
            _, _, turn = heapq.heappop(self._queue)
            if not turn.done():
                self._free -= 1
                turn.set_result(None)

    def _has_room(self, rank: Rank) -> bool:
        return self._free > (-self._for_new_prompts if rank is Rank.NEW_PROMPT else 0)
