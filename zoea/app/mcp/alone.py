"""Zoea's MCP server over HTTP in a process of its own, beside a running swarm or without one."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from zoea.app.logs import logging_to
from zoea.app.mcp.door import Address, McpDoor
from zoea.app.mcp.reach import Elsewhere
from zoea.app.mcp.tokens import Tokens
from zoea.settings import Credentials, load
from zoea.settings.paths import Places


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
    reach = Elsewhere(places)
    door = McpDoor(places, address)
    door.serve(reach)
    with logging_to(places.data / "mcp.log", loaded.settings.log.level):
        try:
            view = await door.switch(True)
            say(f"MCP clients are served at {view.url}")
            if not Tokens(Credentials(places.credentials)).rows():
                say("Nobody has a token yet: zoea mcp token new NAME")
            await ending.wait()
        finally:
            await door.close()
            await reach.close()
