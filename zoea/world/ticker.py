"""Run ticks by the clock, or in turbo mode as fast as players act.

In turbo mode a tick passes when every player with an open turn has acted or waits, at the latest after 250 ms. A
turn opens with a call. It ends at a tick that came by its deadline, if the player sent nothing since the tick
before.
"""

from __future__ import annotations

import asyncio
import sys

from zoea.world.world_log import WorldLog

TURBO_DEADLINE = 0.25
MOVED_S = 0.25
"""Seconds between looks whether a file that was moved is back."""


class Ticker:
    """Run the ticks of one world.

    Args:
        record: World file; each tick is logged and committed.
        seconds: Length of a tick; unused in turbo mode.
        turbo: Whether ticks follow the players, as described above.
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
        """Open a player's turn after a call; wait for the player unless they acted."""
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
        """Stop waiting for a player who logged out."""
        self._thinking.discard(name)
        self._waiting.discard(name)

    def until_next(self) -> float:
        """Return the seconds until the next tick at the latest."""
        return max(0.0, self._due - asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Run ticks until cancelled; none while the world's file is not in its place."""
        loop = asyncio.get_running_loop()
        self._due = loop.time() + self._seconds
        reported = ""
        while True:
            late = True
            if self._turbo:
                late = await self._quiet()
            else:
                await asyncio.sleep(self._due - loop.time())
            if why := self._record.why_moved():
                if why != reported:
                    sys.stderr.write(f"The world is on hold. {why}\n")
                    sys.stderr.flush()
                reported = why
                await asyncio.sleep(MOVED_S)
                continue
            reported = ""
            self.tick(late=late)
            self._due = loop.time() + self._seconds if self._turbo else max(self._due + self._seconds, loop.time())

    async def _quiet(self) -> bool:
        """Wait until all players acted or the deadline passed; return whether it passed."""
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
        """Run and log one tick; `late` ends the turns of silent players."""
        self._reef.tick()
        self._record.tick()
        self._record.commit()
        free = {name for name in self._waiting if not self._reef.is_waiting(name)}
        self._waiting -= free
        if late:
            self._thinking &= self._heard
        self._thinking |= free
        self._heard.clear()
