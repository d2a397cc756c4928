"""Two read-only bodies of `SwarmApi`: over a running swarm, and over a database.

The latter reads the stored swarm every two seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Self

from msgspec.structs import replace

from zoea.ipc.swarm_proxy import SwarmProxy
from zoea.model.errors import OwnerError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import ApprovalView, Event, GrantView, Lagged, MysisView, ProviderView, SwarmView, UpstreamView
from zoea.queries.stored_swarm import read_grants, read_mysis_view, read_open_approvals, read_swarm_view

POLL_S = 2.0
WATCHES = "this cockpit is read-only: it was opened with --read-only"
REASON = "this cockpit is read-only, because the swarm's process does not answer"


_READING = frozenset({"view", "mysis", "wait", "receipt", "approvals", "grants", "upstreams", "providers", "mcp"})
"""The methods of `SwarmApi` that change nothing, besides its streams."""


class WatchedSwarm(SwarmProxy):
    """Passes on the reading methods of a running swarm; all others raise OwnerError."""

    def __init__(self, api: SwarmApi) -> None:
        self._api = api

    @classmethod
    def over(cls, api: SwarmApi) -> Self:
        """Make one over this swarm."""
        return cls(api)

    async def call_method(self, method: str, arguments: dict[str, Any]) -> Any:
        """Carry out a reading method. Raises OwnerError for a command."""
        if method not in _READING:
            raise OwnerError(WATCHES, title="Read-only", hint="`zoea run` opens a cockpit that commands.")
        return await getattr(self._api, method)(**arguments)

    def open_stream(self, method: str, arguments: dict[str, Any]) -> AsyncGenerator[Any, None]:
        """Open a stream; each of them only reads."""
        stream: AsyncGenerator[Any, None] = getattr(self._api, method)(**arguments)
        return stream


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

    async def changes(self) -> AsyncGenerator[SwarmView, None]:
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

    async def events(self, after: int = 0) -> AsyncGenerator[Event | Lagged, None]:
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
