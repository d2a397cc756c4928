"""Real time, real ids and real chance: the only place outside the store that asks for them."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoea.model.ports import Timer


class SystemClock:
    """`Clock` over the operating system's time and the running loop.

    Timers are durations on the monotonic clock of the loop: a wall clock that jumps
    while one runs does not move it.
    """

    def now(self) -> int:
        """µs since the epoch, UTC."""
        return time.time_ns() // 1_000

    def call_at(self, at: int, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(self._seconds_until(at), callback)

    async def sleep_until(self, at: int) -> None:
        await asyncio.sleep(self._seconds_until(at))

    def _seconds_until(self, at: int) -> float:
        return max(0.0, (at - self.now()) / 1_000_000)


class SystemIds:
    """`Ids` from the operating system's randomness."""

    def uid(self) -> str:
        """32 hexadecimal digits, never the same twice."""
        return uuid.uuid4().hex

    def jitter(self) -> float:
        return random.random()
