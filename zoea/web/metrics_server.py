"""The HTTP server for Prometheus: `GET /metrics`, and nothing else.

It has no token, because it holds numbers only; it listens on this machine unless the address says otherwise.
Requests for other host names are refused, so that a web page cannot read it by DNS rebinding.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from aiohttp import web

from zoea.model.errors import StoreError
from zoea.process.connection_limit import ConnectionLimit, fit_to_descriptors
from zoea.web.listeners import is_address, listen

log = logging.getLogger(__name__)

MAX_CONNECTIONS, NEW_PER_ADDRESS = 32, 8
HEAD_S = 10.0
"""Seconds that a connection has for its request and its answer."""


class MetricsServer:
    """Serves what `render` returns, which is called in a thread.

    Args:
        content_type: The media type of the text.
        host: The address to listen at, or a name of it.
        port: 0 takes any free port.
    """

    def __init__(self, render: Callable[[], bytes], content_type: str, *, host: str, port: int) -> None:
        self._render = render
        self._headers = {"Content-Type": content_type, "Cache-Control": "no-store", "Server": "zoea"}
        self._host, self.port = host, port
        self._runner: web.AppRunner | None = None
        self._limit = ConnectionLimit(MAX_CONNECTIONS, NEW_PER_ADDRESS, HEAD_S)

    @property
    def address(self) -> str:
        """The URL to scrape."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}/metrics"

    async def open(self) -> None:
        """Listen. Raises OwnerError where the address is in use or not of this machine."""
        app = web.Application()
        app.router.add_get("/metrics", self._serve)
        self._limit = ConnectionLimit(fit_to_descriptors(MAX_CONNECTIONS), NEW_PER_ADDRESS, HEAD_S)
        hint = "Give another address: --metrics 127.0.0.1:PORT, or the setting metrics.port; 0 is any free port."
        what = "cannot serve metrics"
        self._runner, self.port = await listen(app, self._host, self.port, self._limit, what=what, hint=hint)

    async def close(self) -> None:
        """Stop listening."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _serve(self, request: web.Request) -> web.Response:
        if not self._is_own_name(request.host):
            return web.Response(status=403, text="Zoea is not served under this host name.\n")
        try:
            answer = web.Response(body=await asyncio.to_thread(self._render), headers=self._headers)
        except StoreError as problem:
            log.warning("the metrics cannot be read: %s", problem.what)
            answer = web.Response(status=503, text="The metrics cannot be read now.\n")
        # One answer for each connection, because clients that keep theirs, or read nothing, would take all places.
        answer.force_close()
        return answer

    def _is_own_name(self, host: str) -> bool:
        """True for addresses and the given name; other names may be pointed here by anyone."""
        name = host.rsplit(":", 1)[0] if host.rpartition(":")[2].isdigit() else host
        name = name.strip("[]").lower()
        return name in ("localhost", self._host.lower()) or is_address(name)
