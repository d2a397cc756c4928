"""How a client's wishes reach the swarm: over its owner's socket.

A swarm may start and end while a client is connected; each wish finds out anew.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from zoea.ipc.remote_swarm import RemoteSwarm, connect_to
from zoea.mcp_server.tokens import McpClient
from zoea.model.swarm_api import SwarmApi
from zoea.process.lock import read_holder
from zoea.settings.paths import Places


class SwarmClient(Protocol):
    """Where the swarm is."""

    async def swarm(self, client: McpClient) -> SwarmApi:
        """The swarm, to be asked on behalf of a client. Raises NoRunningSwarm where nobody runs it."""
        ...


class SocketSwarmClient:
    """The swarm of whichever process owns the workspace: one connection for each client that asked."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._lines: dict[str, RemoteSwarm] = {}
        self._opening = asyncio.Lock()

    async def swarm(self, client: McpClient) -> SwarmApi:
        async with self._opening:
            kept = self._lines.get(client.name)
            if kept is not None and not kept.is_gone:
                return kept
            if kept is not None:
                del self._lines[client.name]
                await kept.close()
            made = await connect_to(read_holder(self._places.data), speaking_as=client.name)
            self._lines[client.name] = made
            return made

    async def close(self) -> None:
        """Hang up."""
        lines, self._lines = self._lines, {}
        for line in lines.values():
            await line.close()
