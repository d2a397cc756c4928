"""A streamable HTTP server made of the official SDK, in a child process. Prints its port, then serves."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import ToolAnnotations


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def build() -> MCPServer:
    server = MCPServer("http-peer", log_level="CRITICAL")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def echo(text: str) -> str:
        return text

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def sleep(seconds: float) -> dict[str, float]:
        begun = time.monotonic()
        tell("begun")
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            tell("cancelled")
            raise
        return {"begun": begun, "ended": time.monotonic()}

    @server.tool()
    def write(text: str) -> str:
        return f"written {text}"

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def header(name: str, ctx: Context[Any, Any]) -> str:
        return str((ctx.headers or {}).get(name, ""))

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def grow(ctx: Context[Any, Any]) -> str:
        def grown() -> str:
            return "grown"

        server.add_tool(grown, name="grown")
        await ctx.notify_tools_changed()
        return "done"

    return server


async def main() -> None:
    listening = socket.create_server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0))
    app = build().streamable_http_app()
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=0)
    tell(str(listening.getsockname()[1]))
    await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    asyncio.run(main())
