"""Limits the number of running agent processes. Idle ones are ended for others, and resumed at their next prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


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
        self._changed = asyncio.Event()

    @property
    def running(self) -> int:
        return len(self._holders)

    async def take(self, holder: PlaceHolder) -> None:
        """Wait for a place, and end the longest idle agent where none is free."""
        while holder not in self._holders and len(self._holders) >= max(1, self._most()):
            idle = next((one for one in self._holders if one.is_idle), None)
            if idle is None:
                self._changed.clear()
                await self._changed.wait()
                continue
            del self._holders[idle]
            try:
                await idle.release()
            except BaseException:
                self._holders.setdefault(idle, None)  # its process may still run
                raise
        self.touch(holder)

    def touch(self, holder: PlaceHolder) -> None:
        """Note that an agent is used now, or has become idle now."""
        self._holders.pop(holder, None)
        self._holders[holder] = None
        self._changed.set()

    def leave(self, holder: PlaceHolder) -> None:
        """Give a place back, because its process has ended."""
        self._holders.pop(holder, None)
        self._changed.set()
