"""Clocks for the provider layer: the loop's own time, and one that tests set."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from zoea.model.ports import Timer


class LoopClock:
    """Real time."""

    def now(self) -> int:
        return time.time_ns() // 1000

    def uptime(self) -> int:
        return time.monotonic_ns() // 1000

    @property
    def ahead(self) -> int:
        return self.now() - self.uptime()

    def follow(self) -> int:
        return 0

    def call_after(self, delay: int, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(max(0.0, delay / 1e6), callback)

    async def sleep(self, delay: int) -> None:
        await asyncio.sleep(max(0.0, delay / 1e6))


class _Entry:
    def __init__(self, at: int, callback: Callable[[], None]) -> None:
        self.at = at
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        """Cancel, and let go of the callback as asyncio's timers do."""
        self.is_cancelled = True
        self.callback = lambda: None


class HandClock:
    """Stands still until `by` moves it; callbacks run in the order of their times.

    `jump` sets the wall clock alone, which `now` tells once `follow` was called.
    """

    def __init__(self, start: int = 1_000_000_000) -> None:
        self._uptime = 0
        self._ahead = start
        self._set_by = 0
        self._entries: list[_Entry] = []

    def now(self) -> int:
        return self._uptime + self._ahead

    def uptime(self) -> int:
        return self._uptime

    @property
    def ahead(self) -> int:
        return self._ahead

    def follow(self) -> int:
        delta, self._set_by = self._set_by, 0
        self._ahead += delta
        return delta

    @property
    def is_awaited(self) -> bool:
        """Whether a callback waits for a later time."""
        return any(not entry.is_cancelled for entry in self._entries)

    def jump(self, seconds: float) -> None:
        self._set_by += round(seconds * 1_000_000)

    def call_after(self, delay: int, callback: Callable[[], None]) -> Timer:
        entry = _Entry(self._uptime + delay, callback)
        self._entries.append(entry)
        if delay <= 0:
            # As with real time, what is due already runs in the loop's next round.
            asyncio.get_running_loop().call_soon(self.by, 0)
        return entry

    async def sleep(self, delay: int) -> None:
        woken = asyncio.Event()
        self.call_after(delay, woken.set)
        await woken.wait()

    def by(self, seconds: float) -> None:
        until = self._uptime + round(seconds * 1_000_000)
        while due := [one for one in self._entries if one.at <= until]:
            first = min(due, key=lambda one: one.at)
            self._entries.remove(first)
            if not first.is_cancelled:
                self._uptime = max(self._uptime, first.at)
                first.callback()
        self._uptime = max(self._uptime, until)
