"""The system's time, unique ids and randomness; other layers get them through `Clock` and `Ids`.

The event loop runs on boot time: timers and deadlines count the time of a suspension. A loop that sleeps is not woken
by the end of one; the owner's check of the clock wakes it once a second.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoea.model.ports import Timer
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from typing import Any, TypeVar

SET_US = 500_000
"""A wall clock that is off by less was not set, but drifts or is being adjusted."""

_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def read_uptime() -> int:
    """Return the µs since the machine started. They include suspensions where the system counts them."""
    return time.clock_gettime_ns(_BOOT) // 1_000


def read_uptime_s() -> float:
    """Return the same in seconds, for code without a `Clock`."""
    return read_uptime() / 1_000_000


def read_wall_time() -> int:
    """Return the system's wall time, µs since the epoch, UTC. It can be set at any time: never a duration."""
    return time.time_ns() // 1_000


class SystemClock:
    """`Clock` over the system's clocks and the running event loop.

    A process that runs for long calls `follow`, because `now` goes on evenly until then.
    """

    def __init__(self) -> None:
        self._ahead = read_wall_time() - read_uptime()

    def now(self) -> int:
        return read_uptime() + self._ahead

    def uptime(self) -> int:
        return read_uptime()

    @property
    def ahead(self) -> int:
        return self._ahead

    def follow(self) -> int:
        delta = read_wall_time() - self.now()
        if abs(delta) < SET_US:
            return 0
        self._ahead += delta
        return delta

    def call_after(self, delay: int, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(max(0, delay) / 1_000_000, callback)

    async def sleep(self, delay: int) -> None:
        await asyncio.sleep(max(0, delay) / 1_000_000)


class SystemIds:
    """`Ids` from the system's randomness."""

    def uid(self) -> str:
        """Return a new uid of 32 hexadecimal digits."""
        return uuid.uuid4().hex

    def jitter(self) -> float:
        return random.random()


T = TypeVar("T")


class BootTimeLoop(asyncio.SelectorEventLoop):
    """An event loop with `time` in seconds of boot time."""

    def time(self) -> float:
        return read_uptime_s()


def run_on_boot_time(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` like `asyncio.run`, on a `BootTimeLoop`."""
    with asyncio.Runner(loop_factory=BootTimeLoop) as runner:
        return runner.run(main)


async def yield_with_pauses(stream: AsyncIterator[T], pause_s: float) -> AsyncGenerator[T | None, None]:
    """Yield each item of a stream, and None whenever none comes for a while."""
    following = asyncio.ensure_future(anext(stream))
    try:
        while True:
            await asyncio.wait({following}, timeout=pause_s)
            if not following.done():
                yield None
                continue
            try:
                item = following.result()
            except StopAsyncIteration:
                return
            following = asyncio.ensure_future(anext(stream))
            yield item
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
