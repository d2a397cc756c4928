"""Zoea's MCP server over HTTP in a process of its own: for the command line, and for the owner of a swarm.

The owner's loop carries the swarm and its screen. A client that searches all day takes
nothing from it here, and is not kept waiting by it: what is stored is read from the
database itself, and only wishes that concern the running swarm go over its socket.
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
from zoea.mcp_server.http_transport import client_of, guarded, serving
from zoea.mcp_server.swarm_client import SocketSwarmClient, SwarmClient
from zoea.mcp_server.tokens import Tokens
from zoea.process.gc_tuning import tuned_gc
from zoea.process.logs import logging_to
from zoea.settings import Credentials, load
from zoea.settings.paths import Places
from zoea.tools.builtin.definitions import COMMANDS


@asynccontextmanager
async def serve_clients(
    places: Places, listener: socket.socket, swarm_client: SwarmClient, names: Iterable[str]
) -> AsyncIterator[None]:
    """Serve whoever has a token at a bound socket while the block runs; the socket is closed with it.

    Args:
        names: Under which clients may call, beside those of this machine itself.

    Raises:
        OwnerError: where it does not come up.
    """
    memories = open_memories(places.database)
    try:
        tokens = Tokens(Credentials(places.credentials))
        app = guarded(
            build_zoea_server(swarm_client, memories, client_of), tokens.client_of, hosts=names, commands=COMMANDS
        )
        with tuned_gc():
            async with serving(app, listener):
                yield
    finally:
        await memories.close()


async def serve_http(places: Places, *, host: str, port: int | None, say: Callable[[str], None]) -> None:
    """Serve until this process is told to end (SIGINT, SIGTERM, SIGHUP).

    Args:
        host, port: Where to listen instead of where the settings say.
        say: Told a line for the person.

    Raises:
        OwnerError: where it cannot listen.
        SettingsError: where the settings are wrong.
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
                    say("Nobody has a token yet: zoea mcp token new NAME")
                await ending.wait()
        finally:
            await swarm_client.close()


async def _for_an_owner(errand: ServerOptions) -> None:
    """Serve until stdin ends, which it does with the owner, however he ends.

    A line on stdout says when it serves, and one after each beat that it still does.
    """
    swarm_client = SocketSwarmClient(errand.places)
    with logging_to(errand.places.mcp_log, errand.level):
        try:
            async with serve_clients(errand.places, errand.listener(), swarm_client, errand.names):
                os.set_blocking(sys.stdout.fileno(), False)
                ended = asyncio.create_task(_input_ended())
                while not ended.done():
                    with suppress(BlockingIOError):  # an owner who stands still reads them later, or never
                        os.write(sys.stdout.fileno(), b"served\n")
                    await asyncio.wait({ended}, timeout=errand.beat_s)
        finally:
            await swarm_client.close()


async def _input_ended() -> None:
    """Until stdin ends. A thread that waited for it would keep a process that ends for another reason."""
    unread = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(unread), sys.stdin
    )
    try:
        await unread.read()
    finally:
        transport.close()


if __name__ == "__main__":
    asyncio.run(_for_an_owner(ServerOptions.read(sys.argv[1])))
