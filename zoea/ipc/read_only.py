"""A read-only `SwarmApi` over the database, used when the swarm's owner does not answer.

Reads the stored swarm every two seconds and refuses every command.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

from msgspec.structs import replace

from zoea.ipc.swarm_proxy import SwarmProxy
from zoea.model.errors import OwnerError
from zoea.model.values import ApprovalView, Event, GrantView, Lagged, MysisView, ProviderView, SwarmView, UpstreamView
from zoea.queries.stored_swarm import read_grants, read_mysis_view, read_open_approvals, read_swarm_view

POLL_S = 2.0
REASON = "this cockpit is read-only, because the swarm's process does not answer"


class ReadOnlySwarm(SwarmProxy):
    """Answers the reading methods of `SwarmApi` from the database; all others raise OwnerError.

    Args:
        database: Of the workspace; it is never written.
        poll_s: Seconds between two readings.
    """

    def __init__(self, database: Path, poll_s: float) -> None:
        self._database = database
        self._poll_s = poll_s

    @classmethod
    def over(cls, database: Path, poll_s: float = POLL_S) -> Self:
        """Make one over this database."""
        return cls(database, poll_s)

    async def call_method(self, method: str, arguments: dict[str, Any]) -> Any:
        """Refuse a command. Raises OwnerError."""
        raise OwnerError(REASON, title="Read-only", hint="`zoea run` tries to attach again.")

    async def view(self) -> SwarmView:
        """Every mysis as stored. Raises StoreError."""
        return await asyncio.to_thread(read_swarm_view, self._database)

    async def changes(self) -> AsyncIterator[SwarmView]:
        """Stream whole views, one for each change."""
        known: SwarmView | None = None
        while True:
            found = await self.view()
            if found != known:
                before = {view.id for view in known.myses} if known is not None else set()
                gone = before - {view.id for view in found.myses}
                known = found
                yield replace(found, removed=tuple(sorted(gone)))
            await asyncio.sleep(self._poll_s)

    async def events(self, after: int = 0) -> AsyncIterator[Event | Lagged]:
        """A stream without events: stored events are read from the database."""
        await asyncio.Event().wait()
        yield Lagged(after)

    async def mysis(self, ref: str) -> MysisView:
        """One mysis as stored. Raises MysisMissing, StoreError."""
        return await asyncio.to_thread(read_mysis_view, self._database, ref)

    async def approvals(self) -> tuple[ApprovalView, ...]:
        """The open approvals as stored. Raises StoreError."""
        return await asyncio.to_thread(read_open_approvals, self._database)

    async def grants(self) -> tuple[GrantView, ...]:
        """The grants for whole templates. Raises StoreError."""
        return await asyncio.to_thread(read_grants, self._database)

    async def upstreams(self) -> tuple[UpstreamView, ...]:
        """Empty: only the owner has connections."""
        return ()

    async def providers(self) -> tuple[ProviderView, ...]:
        """Empty, as `upstreams`."""
        return ()
