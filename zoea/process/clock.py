"""The system's time, unique ids and randomness; other layers get them through `Clock` and `Ids`."""

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
    """`Clock` over the system's time and the running event loop.

    Timers run on the loop's monotonic clock, so a change of the wall clock does not
    move a timer that runs.
    """

    def now(self) -> int:
        """Return the time in µs since the epoch, UTC."""
        return time.time_ns() // 1_000

    def call_at(self, at: int, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(self._seconds_until(at), callback)

    async def sleep_until(self, at: int) -> None:
        await asyncio.sleep(self._seconds_until(at))

    def _seconds_until(self, at: int) -> float:
        return max(0.0, (at - self.now()) / 1_000_000)


class SystemIds:
    """`Ids` from the system's randomness."""

    def uid(self) -> str:
        """Return a new uid of 32 hexadecimal digits."""
        return uuid.uuid4().hex

    def jitter(self) -> float:
        return random.random()
