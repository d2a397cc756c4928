"""Serve MCP clients over HTTP in a separate process.

Started by the command line or by the owner of a swarm, so that clients do not slow down the owner's
loop. Stored data is read directly from the database; only calls to the running swarm use the
owner's socket.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress

from zoea.mcp_server.address import Address, ServerOptions, listen, url_of
from zoea.mcp_server.factory import build_zoea_server, open_memories
from zoea.mcp_server.http_transport import build_app, client_of, serve_app
from zoea.mcp_server.swarm_client import SocketSwarmClient, SwarmClient
from zoea.mcp_server.tokens import Tokens
from zoea.process.clock import run_on_boot_time
from zoea.process.gc_tuning import short_gc, tuned_gc
from zoea.process.logs import logging_to
from zoea.settings.credentials import Credentials
from zoea.settings.layers import load
from zoea.settings.paths import Places
from zoea.tools.builtin.definitions import COMMANDS


@asynccontextmanager
async def serve_clients(
    places: Places, listener: socket.socket, swarm_client: SwarmClient, names: Iterable[str]
) -> AsyncIterator[None]:
    """Serve clients with a token on a bound socket during the block. The socket is closed after it.

    Args:
        names: Host names that clients may use, besides those of the loopback interface.

    Raises:
        OwnerError: The server does not start.
    """
    memories = open_memories(places.database)
    try:
        tokens = Tokens(Credentials(places.credentials))
        app = build_app(
            build_zoea_server(swarm_client, memories, client_of), tokens.client_of, hosts=names, commands=COMMANDS
        )
        with tuned_gc():
            async with serve_app(app, listener):
                yield
    finally:
        await memories.close()


async def serve_http(places: Places, *, host: str, port: int | None, say: Callable[[str], None]) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP.

    Args:
        host, port: Replace the address of the settings, if not empty or None.
        say: Called with lines for the person.

    Raises:
        OwnerError: The address cannot be used.
        SettingsError: The settings are wrong.
    """
    loaded = await asyncio.to_thread(load, places)
    settings = loaded.settings.mcp
    address = Address(host or settings.host, settings.port if port is None else port, settings.hosts)
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ending.set)
    swarm_client = SocketSwarmClient(places)
    listener = listen(address.host, address.port)
    with logging_to(places.mcp_log, loaded.settings.log.level):
        try:
            async with serve_clients(places, listener, swarm_client, address.names):
                say(f"MCP clients are served at {url_of(listener)}")
                if not Tokens(Credentials(places.credentials)).rows():
                    say("There is no token yet. Create one with: zoea mcp token new NAME")
                await ending.wait()
        finally:
            await swarm_client.close()


async def _serve_owner(options: ServerOptions) -> None:
    """Serve until stdin ends, which also happens when the owner is killed.

    Writes a line to stdout when it serves, and then one per heartbeat.
    """
    swarm_client = SocketSwarmClient(options.places)
    with logging_to(options.places.mcp_log, options.level):
        try:
            async with serve_clients(options.places, options.listener(), swarm_client, options.names):
                os.set_blocking(sys.stdout.fileno(), False)
                ended = asyncio.create_task(_wait_for_stdin_end())
                while not ended.done():
                    with suppress(BlockingIOError):  # a blocked owner reads them later
                        os.write(sys.stdout.fileno(), b"served\n")
                    await asyncio.wait({ended}, timeout=options.heartbeat_s)
        finally:
            await swarm_client.close()


async def _wait_for_stdin_end() -> None:
    """Wait until stdin ends, without a thread, because that would keep the process alive."""
    unread = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(unread), sys.stdin
    )
    try:
        await unread.read()
    finally:
        transport.close()


if __name__ == "__main__":
    with short_gc():
        run_on_boot_time(_serve_owner(ServerOptions.from_json(sys.argv[1])))
