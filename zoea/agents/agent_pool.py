"""Limits the number of running agent processes. Idle ones are ended for others, and resumed at their next prompt."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

START_S = 1.0
"""An agent that takes longer to start holds up the next one no longer: it may wait for something else than a core."""


class PlaceHolder(Protocol):
    """An agent that holds a place."""

    @property
    def is_idle(self) -> bool:
        """Whether its process may be ended, because no turn needs it."""
        ...

    async def release(self) -> None:
        """End its process."""
        ...


class AgentPool:
    """The places of running agents, the longest idle first.

    Args:
        most: Returns how many may run at once.
    """

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._holders: dict[PlaceHolder, None] = {}  # in the order of their last use
        self._waiting: dict[PlaceHolder, None] = {}
        self._changed = asyncio.Event()
        self._starts = asyncio.Semaphore(max(2, os.cpu_count() or 2))

    @property
    def running(self) -> int:
        return len(self._holders)

    async def take(self, holder: PlaceHolder, show: Callable[[int, int], None] = lambda place, most: None) -> None:
        """Wait in order for a place; where none is free, end the longest idle agent.

        Args:
            show: Gets the place in the queue, 0 once it is over, and how many may run.
        """
        try:
            while holder not in self._holders and (
                len(self._holders) >= max(1, self._most()) or self._is_behind(holder)
            ):
                idle = next((one for one in self._holders if one.is_idle), None)
                if idle is None or self._is_behind(holder):
                    self._waiting.setdefault(holder, None)
                    show(list(self._waiting).index(holder) + 1, max(1, self._most()))
                    self._changed.clear()
                    await self._changed.wait()
                    continue
                del self._holders[idle]
                self._holders[holder] = None  # before the wait, in which others look for a place
                try:
                    await idle.release()
                except BaseException:
                    del self._holders[holder]
                    self._holders.setdefault(idle, None)  # its process may still run
                    raise
            self.touch(holder)
        finally:
            if self._waiting.pop(holder, self) is None:
                show(0, 0)
                self._changed.set()  # for those behind it

    @asynccontextmanager
    async def starting(self) -> AsyncIterator[None]:
        """Hold one of as many places to start as there are cores.

        Programs of agents work for half a second and more until they are there: all at once, they leave no core for
        keys.
        """
        loop = asyncio.get_running_loop()
        await self._starts.acquire()
        timer = loop.call_later(START_S, self._starts.release)
        try:
            yield
        finally:
            if loop.time() < timer.when():
                timer.cancel()
                self._starts.release()

    def _is_behind(self, holder: PlaceHolder) -> bool:
        """Return whether others have waited longer."""
        return next(iter(self._waiting), holder) is not holder

    def touch(self, holder: PlaceHolder) -> None:
        """Note that an agent is used now, or has become idle now."""
        self._holders.pop(holder, None)
        self._holders[holder] = None
        self._changed.set()

    def leave(self, holder: PlaceHolder) -> None:
        """Give a place back, because its process has ended."""
        self._holders.pop(holder, None)
        self._changed.set()
