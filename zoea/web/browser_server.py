"""The HTTP server for browsers: one page, and a cockpit process for each websocket.

The token is the first part of every path; requests without it get 401. It is in the
address because a cookie would be sent to every other port of this host (decision 5).
Requests from pages of other sites (`Origin`) and for other host names (`Host`, against
DNS rebinding) get 403.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from importlib.resources import files
from string import Template
from typing import Self
from urllib.parse import urlsplit

from aiohttp import WSMsgType, web

from zoea.process.connection_limit import ConnectionLimit, fit_to_descriptors
from zoea.web.browser_cockpit import BrowserCockpit
from zoea.web.listeners import is_address, listen

log = logging.getLogger(__name__)

MAX_COCKPITS = 32
"""Limit of cockpits at once. Each takes about 50 MB and three of the 128 connections of the owner's socket."""

STARTS = 2
"""Limit of cockpits that start at once, because a start takes a second of a processor. Further browsers wait."""

MAX_MESSAGE = 4 * 1024 * 1024
"""Longest websocket message of a browser in bytes: a large paste."""

MAX_CONNECTIONS, NEW_PER_ADDRESS = 256, 32
"""Limits of open connections, and of those of one address that have not sent the token yet."""

HEAD_S = 10.0
"""Seconds that a connection has until a request with the token has arrived."""

ANSWER_S = 60.0
"""Seconds that a connection with the token has for its requests, unless it becomes a cockpit's."""

KEEP_ALIVE_S = 30.0
HEARTBEAT_S = 15.0
CLOSE_S = 1.0
"""Seconds for a browser's closing handshake."""

PACKETS_PER_S, PACKET_BYTES = 1_000, 4_096
"""Packets a second that a browser may send, after so many at once; a longer one counts as several. Others wait."""

_PAGE_FILES, _TERMINAL_FILES = files("zoea.web") / "page", files("textual_serve") / "static"
ASSETS = {
    "page.css": (_PAGE_FILES / "page.css", "text/css"),
    "page.js": (_PAGE_FILES / "page.js", "text/javascript"),
    "textual.js": (_TERMINAL_FILES / "js" / "textual.js", "text/javascript"),
    "xterm.css": (_TERMINAL_FILES / "css" / "xterm.css", "text/css"),
    "RobotoMono-VariableFont_wght.ttf": (_TERMINAL_FILES / "fonts" / "RobotoMono-VariableFont_wght.ttf", "font/ttf"),
    "RobotoMono-Italic-VariableFont_wght.ttf": (
        _TERMINAL_FILES / "fonts" / "RobotoMono-Italic-VariableFont_wght.ttf",
        "font/ttf",
    ),
}
"""The files that the page links, as name -> (file, content type): textual-serve's and our own."""

_HOST = re.compile(r"(?P<name>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BrowserServer:
    """Serves cockpits to browsers. Use as `async with BrowserServer(…) as server`.

    Args:
        command: The command line of one cockpit.
        host: The address to listen at, or a name of it.
        port: 0 takes any free port.
    """

    def __init__(self, command: Sequence[str], *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.token = secrets.token_urlsafe(32)
        self._command = command
        self._host = host
        self._port = port
        self._cockpits: set[BrowserCockpit] = set()
        self._page = Template((_PAGE_FILES / "index.html").read_text(encoding="utf-8"))
        self._runner: web.AppRunner | None = None
        self._limit = ConnectionLimit(MAX_CONNECTIONS, NEW_PER_ADDRESS, HEAD_S)
        self._starts = asyncio.Semaphore(STARTS)

    @property
    def address(self) -> str:
        """The URL to open, with the token in it."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        if is_address(self._host) and ipaddress.ip_address(self._host).is_unspecified:
            host = "127.0.0.1"
        return f"http://{host}:{self._port}/{self.token}/"

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can reach it."""
        return self._host == "localhost" or _is_loopback(self._host)

    async def open(self) -> None:
        """Listen.

        Raises:
            OwnerError: if the address is in use or not of this machine.
        """
        app = web.Application(middlewares=[self._check_request])
        app.on_response_prepare.append(self._add_security_headers)
        app.router.add_get("/{token}", self._serve_page)
        app.router.add_get("/{token}/", self._serve_page)
        app.router.add_get("/{token}/ws", self._serve_cockpit)
        app.router.add_get("/{token}/{asset}", self._serve_asset)
        self._limit = ConnectionLimit(fit_to_descriptors(MAX_CONNECTIONS), NEW_PER_ADDRESS, HEAD_S)
        hint = "Give another --port or --host: `--port 0` takes any free port, 127.0.0.1 is this machine."
        self._runner, self._port = await listen(
            app, self._host, self._port, self._limit, what="cannot serve", hint=hint, keepalive_timeout=KEEP_ALIVE_S
        )

    async def close(self) -> None:
        """Stop listening and end every cockpit."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        for site in tuple(runner.sites):
            await site.stop()
        await self.end_cockpits()
        await runner.cleanup()

    async def end_cockpits(self) -> None:
        """End every cockpit; the pages offer to open a new one."""
        await asyncio.gather(*(cockpit.stop() for cockpit in tuple(self._cockpits)))

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @web.middleware
    async def _check_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        host = _HOST.fullmatch(request.headers.get("Host", ""))
        if host is None or not self._is_own_name(host["name"].strip("[]").lower()):
            return _refusal(403, "Zoea is not served under this host name.")
        origin = request.headers.get("Origin")
        if origin is not None and not _is_same(origin, host[0]):
            return _refusal(403, "Requests from pages of other sites are refused.")
        given = request.path.partition("/")[2].partition("/")[0]  # the path of `OPTIONS *` has no `/`
        if not secrets.compare_digest(given.encode("utf-8", "replace"), self.token.encode()):
            return _refusal(401, "Open the whole address that `zoea serve` printed: it includes a token.")
        if request.transport is not None:
            self._limit.prolong(request.transport.get_extra_info("peername")[:2], ANSWER_S)
        return await handler(request)

    def _is_own_name(self, name: str) -> bool:
        """True for names that other people cannot point at this machine."""
        if name in ("localhost", self._host.lower()):
            return True
        return _is_loopback(name) or (not self.is_loopback and is_address(name))

    async def _add_security_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        # Older browsers do not count a websocket as `self`, so it is named. The host has been checked.
        host = _HOST.fullmatch(request.headers.get("Host", ""))
        sockets = f" ws://{host[0]} wss://{host[0]}" if host else ""
        response.headers.update(
            {
                "Cache-Control": "no-store",
                "Content-Security-Policy": (
                    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
                    f"img-src data:; connect-src 'self'{sockets}; "
                    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
                ),
                "Cross-Origin-Opener-Policy": "same-origin",
                "Cross-Origin-Resource-Policy": "same-origin",
                "Referrer-Policy": "no-referrer",
                "Server": "zoea",
                "X-Content-Type-Options": "nosniff",
                "X-Frame-Options": "DENY",
            }
        )

    async def _serve_page(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text=self._page.substitute(base=f"/{self.token}"), content_type="text/html")

    async def _serve_asset(self, request: web.Request) -> web.StreamResponse:
        asset = ASSETS.get(request.match_info["asset"])
        if asset is None:
            return _refusal(404, "not found")
        file, kind = asset
        return web.Response(body=await asyncio.to_thread(file.read_bytes), content_type=kind)

    async def _serve_cockpit(self, request: web.Request) -> web.StreamResponse:
        if len(self._cockpits) >= MAX_COCKPITS or self._runner is None:
            log.warning("a browser was refused, because %d cockpits are open", len(self._cockpits))
            return _refusal(503, f"{MAX_COCKPITS} cockpits are open already: close one.")
        browser = web.WebSocketResponse(
            timeout=CLOSE_S, heartbeat=HEARTBEAT_S, max_msg_size=MAX_MESSAGE, compress=False, autoping=False
        )
        transport = request.transport
        assert transport is not None

        def abort() -> None:
            """Close the connection at once, also where neither side reads."""
            transport.abort()
            reading.cancel()

        cockpit = BrowserCockpit(
            self._command, write_bytes=browser.send_bytes, write_text=browser.send_str, close=browser.close, abort=abort
        )
        self._cockpits.add(cockpit)
        # A task, because aiohttp does not end a pending `receive` of a connection that is broken off.
        reading = asyncio.create_task(self._run_cockpit(request, browser, cockpit), name="input of a browser")
        try:
            await asyncio.wait({reading})
            if not reading.cancelled():
                reading.result()
        except ConnectionError:
            log.debug("a browser left while it was answered")
        except OSError as problem:
            log.warning("a browser's cockpit could not be started: %s", problem)
        finally:
            reading.cancel()
            await cockpit.stop()
            self._cockpits.discard(cockpit)
            if browser.prepared:
                transport.abort()  # what the browser has not read would hold the connection open
        return browser if browser.prepared else _refusal(400, "The connection was closed.")

    async def _run_cockpit(self, request: web.Request, browser: web.WebSocketResponse, cockpit: BrowserCockpit) -> None:
        """Start a browser's cockpit in its turn, and pass packets on until it disconnects."""
        await browser.prepare(request)
        transport = request.transport
        if transport is None:
            return
        self._limit.confirm(transport.get_extra_info("peername")[:2])
        async with self._starts:
            if self._runner is not None and not transport.is_closing():
                await cockpit.start(_cells(request, "width", 80), _cells(request, "height", 24))
        await _read_packets(browser, cockpit)


async def _read_packets(browser: web.WebSocketResponse, cockpit: BrowserCockpit) -> None:
    """Pass a browser's packets on until its connection ends, at most `PACKETS_PER_S`.

    Pings are answered here, because aiohttp reads any number of them without giving the event loop a turn.
    """
    loop = asyncio.get_running_loop()
    free_from = 0.0
    async for message in browser:
        if message.type is WSMsgType.TEXT:
            await cockpit.receive(message.data)
        elif message.type is WSMsgType.PING:
            await browser.pong(message.data)
        elif message.type is WSMsgType.BINARY:
            log.warning("a browser's message was ignored, because the page sends no bytes")
        elif message.type is WSMsgType.ERROR:
            log.warning("a browser's connection was closed: %s", message.data)
        size = len(message.data) if isinstance(message.data, str | bytes | bytearray) else 0
        free_from = max(free_from, loop.time() - 1.0) + (1 + size // PACKET_BYTES) / PACKETS_PER_S
        if (ahead_s := free_from - loop.time()) > 0:
            log.warning("a browser sends more than %s messages a second: the others wait", f"{PACKETS_PER_S:,}")
            await asyncio.sleep(ahead_s)


def _cells(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, "")
    return int(text) if re.fullmatch(r"[0-9]{1,4}", text) else default


def _is_same(origin: str, host: str) -> bool:
    """True if a page's origin is this host, over HTTP or HTTPS."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _is_loopback(name: str) -> bool:
    return is_address(name) and ipaddress.ip_address(name).is_loopback


def _refusal(status: int, said: str) -> web.Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    response = web.Response(status=status, text=f"{said}\n", headers=headers)
    if status in (401, 403):
        response.force_close()
    return response
