"""The owner's door for MCP clients over HTTP: open while the settings or a person want it.

Opening loads the SDK and the HTTP server, which takes longer than the loop may be
held up, so that happens in a thread; a swarm that serves nobody pays nothing.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass

from zoea.app.mcp.library import Library
from zoea.app.mcp.reach import Reach
from zoea.app.mcp.tokens import Tokens
from zoea.model.errors import OwnerError, ZoeaError
from zoea.model.values import McpView
from zoea.settings import Credentials
from zoea.settings.paths import Places
from zoea.settings.sections import McpSettings
from zoea.tools.own import COMMANDS

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and under which further names clients may call."""

    host: str
    port: int
    hosts: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: McpSettings) -> Address:
        return cls(settings.host, settings.port, settings.hosts)


class McpDoor:
    """Serves MCP clients over HTTP while it is open.

    Args:
        places: Where the workspace's memory and tokens lie.
        address: Where to listen.
    """

    def __init__(self, places: Places, address: Address) -> None:
        self._places = places
        self._address = address
        self._open: AsyncExitStack | None = None
        self._view = McpView()
        self._switching = asyncio.Lock()
        self._reach: Reach | None = None

    def serve(self, reach: Reach) -> None:
        """Give the swarm that clients reach."""
        self._reach = reach

    @property
    def view(self) -> McpView:
        return self._view

    async def switch(self, on: bool) -> McpView:
        """Open or close it. Raises OwnerError where it cannot listen."""
        async with self._switching:
            if on and self._open is None:
                await self._begin()
            elif not on:
                await self._end()
            return self._view

    async def open_if_it_can(self) -> None:
        """Open it; what stands in the way is logged and shown, and nothing else suffers from it."""
        try:
            await self.switch(True)
        except ZoeaError as error:
            log.warning("MCP clients are not served: %s", error.what)
            self._view = McpView(problem=error.what)

    async def close(self) -> None:
        """End every client's connection."""
        async with self._switching:
            await self._end()

    async def _begin(self) -> None:
        if self._reach is None:
            raise OwnerError("the swarm is not open yet")
        http = await asyncio.to_thread(importlib.import_module, "zoea.app.mcp.http")
        served = await asyncio.to_thread(importlib.import_module, "zoea.app.mcp.served")
        async with AsyncExitStack() as stack:
            listener = http.listen(self._address.host, self._address.port)
            stack.callback(listener.close)
            library = Library(self._places.database)
            stack.callback(library.close)
            tokens = Tokens(Credentials(self._places.credentials))
            server = served.server_of(self._reach, library, http.client_of)
            app = http.guarded(
                server, tokens.client_of, hosts=(self._address.host, *self._address.hosts), commands=COMMANDS
            )
            await stack.enter_async_context(http.serving(app, listener))
            self._view = McpView(url=http.address_of(listener))
            log.info("MCP clients are served at %s", self._view.url)
            self._open = stack.pop_all()

    async def _end(self) -> None:
        closing, self._open = self._open, None
        self._view = McpView()
        if closing is not None:
            await closing.aclose()
