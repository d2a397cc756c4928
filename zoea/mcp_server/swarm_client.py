"""Connect MCP clients to the running swarm over its owner's socket.

The swarm may start and end while a client is connected, so every call looks for it again.
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
    """Gives access to the running swarm."""

    async def swarm(self, client: McpClient) -> SwarmApi:
        """Return the swarm, speaking as the client. Raises NoRunningSwarm if it does not run."""
        ...


class SocketSwarmClient:
    """Connects to the process that owns the workspace, once per client."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._connections: dict[str, RemoteSwarm] = {}
        self._opening = asyncio.Lock()

    async def swarm(self, client: McpClient) -> SwarmApi:
        async with self._opening:
            kept = self._connections.get(client.name)
            if kept is not None and not kept.is_gone:
                return kept
            if kept is not None:
                del self._connections[client.name]
                await kept.close()
            made = await connect_to(read_holder(self._places.data), speaking_as=client.name)
            self._connections[client.name] = made
            return made

    async def close(self) -> None:
        """Close all connections."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            await connection.close()
