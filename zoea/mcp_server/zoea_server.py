"""Zoea's own MCP server: the factory with Zoea's tools and resources."""

from __future__ import annotations

from typing import Any

from mcp.server import Server

from zoea.mcp_server.client_tools import ClientTools
from zoea.mcp_server.factory import ClientOf, build, zoea_tools
from zoea.mcp_server.memory_readers import MemoryReaders
from zoea.mcp_server.resources import SwarmResources
from zoea.mcp_server.swarm_client import SwarmClient


def server_of(swarm_client: SwarmClient, readers: MemoryReaders, client_of: ClientOf) -> Server[Any]:
    """The server over a swarm and its memory, for whichever transport."""
    tools = ClientTools(swarm_client, readers)
    return build(zoea_tools(tools), SwarmResources(tools, readers), client_of)
