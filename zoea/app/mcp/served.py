"""Zoea's own MCP server: the factory with Zoea's tools and resources."""

from __future__ import annotations

from typing import Any

from mcp.server import Server

from zoea.app.mcp.client_tools import ClientTools
from zoea.app.mcp.library import Library
from zoea.app.mcp.reach import Reach
from zoea.app.mcp.resources import SwarmResources
from zoea.app.mcp.server import ClientOf, build, zoea_tools


def server_of(reach: Reach, library: Library, client_of: ClientOf) -> Server[Any]:
    """The server over a swarm and its memory, for whichever transport."""
    tools = ClientTools(reach, library)
    return build(zoea_tools(tools), SwarmResources(tools, library), client_of)
