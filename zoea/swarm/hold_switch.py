"""Hold: no new model or tool call starts while it is on. A property of the swarm, or of one mysis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class HoldSwitch:
    """Who is held, and where those that were about to call something wait."""

    def __init__(self) -> None:
        self.reason = ""
        self._swarm = False
        self._myses: set[int] = set()
        self._changed = asyncio.Event()
        self._told: dict[object, tuple[int, Callable[[], None]]] = {}

    @property
    def swarm(self) -> bool:
        return self._swarm

    def holds(self, mysis_id: int) -> bool:
        return self._swarm or mysis_id in self._myses

    def set_swarm(self, on: bool, reason: str) -> None:
        self._swarm = on
        self.reason = reason if on else ""
        self._wake()

    def set_mysis(self, mysis_id: int, on: bool) -> None:
        if on:
            self._myses.add(mysis_id)
        else:
            self._myses.discard(mysis_id)
        self._wake()

    @contextmanager
    def on_hold(self, mysis_id: int, tell: Callable[[], None]) -> Iterator[None]:
        """Within the block, `tell` is called at once when a hold on this mysis comes on."""
        block = object()
        self._told[block] = (mysis_id, tell)
        try:
            yield
        finally:
            del self._told[block]

    def _wake(self) -> None:
        for mysis_id, tell in tuple(self._told.values()):
            if self.holds(mysis_id):
                tell()
        self._changed.set()
        self._changed = asyncio.Event()

    async def lifted(self, mysis_id: int) -> None:
        """Return as soon as this mysis may call something."""
        while self.holds(mysis_id):
            await self._changed.wait()
