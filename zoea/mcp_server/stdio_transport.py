"""Serve one MCP client over this process's stdin and stdout.

Only the protocol uses stdout: the SDK moves it to another descriptor, and all other output to
stdout or stderr goes to the log.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from zoea.mcp_server.factory import build_zoea_server, open_memories
from zoea.mcp_server.swarm_client import SocketSwarmClient
from zoea.mcp_server.tokens import McpClient
from zoea.process.answered_lines import AnsweredLines
from zoea.process.logs import logging_to
from zoea.settings.paths import Places
from zoea.settings.private_file import READ_ONLY, open_private

log = logging.getLogger(__name__)

STDERR = 2


async def serve_stdio(places: Places, client: McpClient, *, level: str) -> None:
    """Serve until the client closes this process's stdin, or takes no more answers."""
    file = places.mcp_log
    swarm_client = SocketSwarmClient(places)
    memories = open_memories(places.database)
    try:
        with logging_to(file, level), _redirect_stderr(file):
            server = build_zoea_server(swarm_client, memories, lambda _: client)
            async with stdio_server() as (read, write):
                lines = AnsweredLines((read, write), SessionMessage)
                await server.run(lines, write, server.create_initialization_options())
    except* BrokenPipeError:
        log.info("the client is gone, and took no more answers")
    finally:
        await swarm_client.close()
        await memories.close()


@contextmanager
def _redirect_stderr(path: Path) -> Iterator[None]:
    """Redirect stderr of this process and its children to a file during the block."""
    try:
        file = open_private(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    except OSError as problem:
        if problem.errno not in READ_ONLY:
            raise
        yield  # the directory may only be read, so stderr stays with the client
        return
    kept = os.dup(STDERR)
    try:
        os.dup2(file, STDERR)
        yield
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)
        os.close(file)
