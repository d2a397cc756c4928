"""How many turns advance at once. The rest queue: opened by a person, then steered, then oldest.

Without it a thousand runnable tasks delay a key press by seconds. A place is held
while a turn plans and stores, never while it waits for a model or a tool.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import IntEnum


class Rank(IntEnum):
    """Who goes first when places are short."""

    PERSON = 0
    STEERED = 1
    OTHER = 2


class TurnGate:
    """`places` turns at once."""

    def __init__(self, places: int) -> None:
        self._free = places
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
        if self._free > 0:
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
        while self._queue:
            _, _, turn = heapq.heappop(self._queue)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
