"""The conformance suite's fixtures on Zoea's own server factory, transport, authorization and error code.

`python -m tests.conformance.server TOKEN` prints its address and serves until it is ended.
"""

from __future__ import annotations

import asyncio
import sys

from tests.conformance.fixtures import Shelf, add_the_rest, tools
from zoea.mcp_server.address import listen, url_of
from zoea.mcp_server.factory import build_server
from zoea.mcp_server.http_transport import build_app, client_of, serve_app
from zoea.mcp_server.tokens import McpClient, TokenScope


async def main(token: str) -> None:
    """Serve the client that has the token."""
    server = build_server(tools(), Shelf(), client_of, name="conformance")
    add_the_rest(server)
    suite = McpClient("suite", TokenScope.COMMAND)
    app = build_app(server, lambda given: suite if given == token else None)
    listener = listen("127.0.0.1", 0)
    async with serve_app(app, listener):
        sys.stdout.write(f"{url_of(listener)}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit(0)
