"""When a tick passes: by the clock, or in turbo as fast as the players act.

In turbo a tick passes when every player with an open turn has acted or waits, or
after 250 ms. A player has an open turn from a call on, until a tick that had to come
by its deadline and in which nothing was heard of them.
"""

from __future__ import annotations

import asyncio

from zoea.world.world_log import WorldLog

TURBO_DEADLINE = 0.25


class Ticker:
    """Drives the ticks of one world.

    Args:
        record: Its reef is ticked, and each tick is written down and committed.
        seconds: Length of a tick; unused in turbo.
        turbo: See above.
    """

    def __init__(self, record: WorldLog, *, seconds: float = 2.0, turbo: bool = False) -> None:
        self._record = record
        self._reef = record.reef
        self._seconds = TURBO_DEADLINE if turbo else seconds
        self._turbo = turbo
        self._thinking: set[str] = set()
        self._waiting: set[str] = set()
        self._heard: set[str] = set()
        self._ready = asyncio.Event()
        self._due = 0.0

    def called(self, name: str) -> None:
        """A player called: their turn is open; they are waited for unless they acted."""
        if not self._turbo:
            return
        self._heard.add(name)
        if self._reef.is_waiting(name):
            self._thinking.discard(name)
            self._waiting.add(name)
            if not self._thinking:
                self._ready.set()
        else:
            self._thinking.add(name)

    def left(self, name: str) -> None:
        """A player logged out: nobody waits for them."""
        self._thinking.discard(name)
        self._waiting.discard(name)

    def until_next(self) -> float:
        """Seconds until the next tick is due at the latest."""
        return max(0.0, self._due - asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Let ticks pass until cancelled."""
        loop = asyncio.get_running_loop()
        self._due = loop.time() + self._seconds
        while True:
            late = True
            if self._turbo:
                late = await self._quiet()
            else:
                await asyncio.sleep(self._due - loop.time())
            self.tick(late=late)
            self._due = loop.time() + self._seconds if self._turbo else max(self._due + self._seconds, loop.time())

    async def _quiet(self) -> bool:
        """Wait until nobody is waited for, or the deadline; whether it was the deadline."""
        if self._waiting and not self._thinking:
            await asyncio.sleep(0.001)
            if not self._thinking:
                return False
        self._ready.clear()
        try:
            await asyncio.wait_for(self._ready.wait(), self.until_next())
        except TimeoutError:
            return True
        return False

    def tick(self, *, late: bool = False) -> None:
        """One tick, written down; `late` ends the turns of those not heard of since the last."""
        self._reef.tick()
        self._record.tick()
        self._record.commit()
        free = {name for name in self._waiting if not self._reef.is_waiting(name)}
        self._waiting -= free
        if late:
            self._thinking &= self._heard
        self._thinking |= free
        self._heard.clear()
