"""What every mysis of a swarm shares, handed to runners and drivers as one value."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from zoea.model.errors import StoreFull
from zoea.model.ports import Clock, Ids, ToolFactory
from zoea.settings import Settings
from zoea.store import Store, WriterConnection
from zoea.swarm.agent import Providers
from zoea.swarm.approvals import ApprovalDesk
from zoea.swarm.gate import TurnGate
from zoea.swarm.hold import HoldSwitch
from zoea.swarm.view import LiveView

_log = logging.getLogger(__name__)

T = TypeVar("T")
RETRY_DISK_S = 10.0
DISK_FULL = "disk full or failing: nothing can be stored"


@dataclass(slots=True)
class Services:
    """Shared parts. `hold_swarm` puts everything on hold with a reason, durably where that is possible."""

    store: Store
    clock: Clock
    ids: Ids
    settings: Settings
    providers: Providers
    tools: ToolFactory
    gate: TurnGate
    hold: HoldSwitch
    view: LiveView
    approvals: ApprovalDesk
    hold_swarm: Callable[[str], Awaitable[None]]
    known_catalogues: set[str] = field(default_factory=set)
    _disk: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def write(self, op: Callable[[WriterConnection], T]) -> T:
        """Write for the swarm itself: on a full disk it holds, and tries again until it can go on.

        A person's command uses `store.write` instead, and hears that the disk is full.
        """
        while True:
            try:
                return await self.store.write(op)
            except StoreFull as error:
                await self.disk_trouble(error)

    async def disk_trouble(self, error: StoreFull) -> None:
        """Hold the swarm until a trial write succeeds. Whoever comes meanwhile waits for the same trial."""
        _log.error("%s: %s", error.title, error.what)
        first = not self._disk.locked()
        async with self._disk:
            if first and not self.hold.swarm:
                self.hold.set_swarm(True, DISK_FULL)
                self.view.touch()
            while True:
                try:
                    await self.store.probe()
                except StoreFull:
                    await self.clock.sleep_until(self.clock.now() + int(RETRY_DISK_S * 1_000_000))
                else:
                    break
            if self.hold.reason == DISK_FULL:
                self.hold.set_swarm(False, "")
                self.view.touch()
