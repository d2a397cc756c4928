"""`zoea mcp` over stdio whose tools write where they should not: to stdout, to its descriptor, from a child."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from zoea.mcp_server import client_tools
from zoea.mcp_server.stdio_transport import serve_stdio
from zoea.mcp_server.tokens import McpClient
from zoea.settings.paths import places

proper = client_tools.ClientTools.call


async def call(self: Any, name: str, arguments: Any, client: McpClient) -> dict[str, Any]:
    sys.stdout.write("noise of python\n")
    sys.stdout.flush()
    os.write(1, b"noise of the descriptor\n")
    sys.stderr.write("noise on stderr\n")
    child = await asyncio.create_subprocess_shell("echo noise of a child; echo complaint of a child >&2")
    await child.wait()
    return await proper(self, name, arguments, client)


if __name__ == "__main__":
    client_tools.ClientTools.call = call  # type: ignore[method-assign]  # a tool that misbehaves
    asyncio.run(serve_stdio(places(), McpClient("noisy"), level="info"))
