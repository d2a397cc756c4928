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

    def call_at(self, at: int, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(max(0.0, (at - self.now()) / 1e6), callback)

    async def sleep_until(self, at: int) -> None:
        await asyncio.sleep(max(0.0, (at - self.now()) / 1e6))


class _Entry:
    def __init__(self, at: int, callback: Callable[[], None]) -> None:
        self.at = at
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class HandClock:
    """Stands still until `to` or `by` moves it; callbacks run in the order of their times."""

    def __init__(self, start: int = 1_000_000_000) -> None:
        self._now = start
        self._entries: list[_Entry] = []

    def now(self) -> int:
        return self._now

    def call_at(self, at: int, callback: Callable[[], None]) -> Timer:
        entry = _Entry(at, callback)
        self._entries.append(entry)
        if at <= self._now:
            # As with real time, what is due already runs in the loop's next round.
            asyncio.get_running_loop().call_soon(self.to, self._now)
        return entry

    async def sleep_until(self, at: int) -> None:
        woken = asyncio.Event()
        self.call_at(at, woken.set)
        await woken.wait()

    def by(self, seconds: float) -> None:
        self.to(self._now + round(seconds * 1_000_000))

    def to(self, at: int) -> None:
        while due := [one for one in self._entries if one.at <= at]:
            first = min(due, key=lambda one: one.at)
            self._entries.remove(first)
            if not first.is_cancelled:
                self._now = max(self._now, first.at)
                first.callback()
        self._now = at
