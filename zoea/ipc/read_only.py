"""A swarm that can only be looked at: what is stored, read anew every two seconds, where its owner cannot be reached.

It answers what a front reads and refuses every command, with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from zoea.model.errors import OwnerError
from zoea.model.values import ApprovalView, Event, GrantView, Lagged, MysisView, ProviderView, SwarmView, UpstreamView
from zoea.queries.stored_swarm import grants, open_approvals, stored_mysis, stored_view

EVERY_S = 2.0
WHY = "this cockpit only looks: the swarm's process does not answer it"


class Looking:
    """The reading half of `SwarmApi` over a database; whatever it does not read, it refuses.

    Args:
        database: Of the workspace; nothing is ever written there.
        every_s: Seconds between two readings.
    """

    def __init__(self, database: Path, every_s: float = EVERY_S) -> None:
        self._database = database
        self._every_s = every_s

    async def view(self) -> SwarmView:
        """Every mysis as stored. Raises StoreError."""
        return await asyncio.to_thread(stored_view, self._database)

    async def changes(self) -> AsyncIterator[SwarmView]:
        """All of them whenever anything is not as it was."""
        known: SwarmView | None = None
        while True:
            found = await self.view()
            if found != known:
                before = {view.id for view in known.myses} if known is not None else set()
                gone = before - {view.id for view in found.myses}
                known = found
                yield replace(found, removed=tuple(sorted(gone)))
            await asyncio.sleep(self._every_s)

    async def events(self, after: int = 0) -> AsyncIterator[Event | Lagged]:
        """None: what happened is read where it is stored, and nobody tells of it."""
        await asyncio.Event().wait()
        yield Lagged(after)

    async def mysis(self, ref: str) -> MysisView:
        """One mysis as stored. Raises MysisMissing, StoreError."""
        return await asyncio.to_thread(stored_mysis, self._database, ref)

    async def approvals(self) -> tuple[ApprovalView, ...]:
        """What waited for an answer. Raises StoreError."""
        return await asyncio.to_thread(open_approvals, self._database)

    async def grants(self) -> tuple[GrantView, ...]:
        """What holds for whole templates. Raises StoreError."""
        return await asyncio.to_thread(grants, self._database)

    async def upstreams(self) -> tuple[UpstreamView, ...]:
        """None: connections are the owner's."""
        return ()

    async def providers(self) -> tuple[ProviderView, ...]:
        """None, as with upstreams."""
        return ()

    def __getattr__(self, command: str) -> Callable[..., Coroutine[Any, Any, None]]:
        async def refused(*given: object, **named: object) -> None:
            raise OwnerError(WHY, title="Looking only", hint="`zoea run` tries to attach again.")

        return refused
