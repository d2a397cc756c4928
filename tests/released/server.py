"""An MCP server over stdio with one tool for each kind of call: read, change, destroy, wait."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from mcp.server import MCPServer
from mcp.types import ImageContent, TextContent, ToolAnnotations

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def look(text: str) -> str:
    return f"saw {text}"


async def picture(text: str) -> list[TextContent | ImageContent]:
    image = ImageContent(type="image", data=base64.b64encode(PIXEL).decode(), mime_type="image/png")
    return [TextContent(type="text", text=f"a picture of {text}"), image]


async def act(text: str) -> str:
    return f"did {text}"


async def refuse(text: str) -> str:
    raise ValueError(f"cannot do {text}")


async def burn(text: str) -> str:
    return f"burned {text}"


async def hang(text: str) -> str:
    """Answer at once, except for the text `for ever`."""
    if text == "for ever":
        await asyncio.sleep(600)
    return f"waited {text}"


def build_server() -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("peer", log_level="ERROR")
    reads = ToolAnnotations(read_only_hint=True)
    changes = ToolAnnotations(read_only_hint=False, destructive_hint=False)
    server.add_tool(look, description="Looks.", annotations=reads)
    server.add_tool(picture, description="Shows a picture.", annotations=reads)
    server.add_tool(act, description="Acts.", annotations=changes)
    server.add_tool(refuse, description="Fails.", annotations=changes)
    server.add_tool(burn, description="Burns.", annotations=ToolAnnotations(destructive_hint=True))
    server.add_tool(hang, description="Waits.", annotations=changes)
    return server


if __name__ == "__main__":
    build_server().run("stdio")
