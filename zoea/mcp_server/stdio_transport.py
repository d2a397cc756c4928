"""Zoea's MCP server for one client over this process's stdin and stdout.

The protocol alone has the process's stdout: the SDK moves it to a descriptor of its
own, and whatever else writes there, or to stderr, ends up in the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mcp.server.stdio import stdio_server

from zoea.mcp_server.factory import build_zoea_server, open_memories
from zoea.mcp_server.swarm_client import SocketSwarmClient
from zoea.mcp_server.tokens import McpClient
from zoea.process.logs import logging_to
from zoea.settings.paths import Places

STDERR = 2


async def serve_stdio(places: Places, client: McpClient, *, level: str = "info") -> None:
    """Serve until the client closes our stdin."""
    log = places.mcp_log
    swarm_client = SocketSwarmClient(places)
    memories = open_memories(places.database)
    try:
        with logging_to(log, level), _stderr_to(log):
            server = build_zoea_server(swarm_client, memories, lambda _: client)
            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())
    finally:
        await swarm_client.close()
        await memories.close()


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """What is written to this process's stderr, by children too, goes to a file while the block runs."""
    kept = os.dup(STDERR)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.dup2(file, STDERR)
        yield
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)
        os.close(file)
