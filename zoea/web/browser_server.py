"""The door for browsers: one page, and behind each websocket a cockpit of its own.

Nothing is answered without the token, which is the first part of every path. It stays
in the address on purpose: a cookie would be sent to every other port of this host.
A page of somebody else's site gets nothing either, as it names itself in `Origin`,
and no name but this host's own is answered to, which ends DNS rebinding.
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
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from aiohttp import WSMsgType, web

from zoea.model.errors import OwnerError
from zoea.web.browser_cockpit import BrowserCockpit

log = logging.getLogger(__name__)

MAX_COCKPITS = 32
"""At once. Each is a process of about 50 MB and three connections of the owner's socket, which takes 128."""

MAX_MESSAGE = 4 * 1024 * 1024
"""Bytes that a browser may send at once: a large paste."""

HEARTBEAT_S = 15.0
LEFT_BEHIND_S = 0.5
GOODBYE_S = 1.0
"""What an open request may take when the door closes, and a browser to say goodbye."""

_OURS, _THEIRS = files("zoea.web") / "page", files("textual_serve") / "static"
ASSETS = {
    "page.css": (_OURS / "page.css", "text/css"),
    "page.js": (_OURS / "page.js", "text/javascript"),
    "textual.js": (_THEIRS / "js" / "textual.js", "text/javascript"),
    "xterm.css": (_THEIRS / "css" / "xterm.css", "text/css"),
    "RobotoMono-VariableFont_wght.ttf": (_THEIRS / "fonts" / "RobotoMono-VariableFont_wght.ttf", "font/ttf"),
    "RobotoMono-Italic-VariableFont_wght.ttf": (
        _THEIRS / "fonts" / "RobotoMono-Italic-VariableFont_wght.ttf",
        "font/ttf",
    ),
}
"""All that the page names: textual-serve's terminal and fonts, and our own style and script. By name: file, type."""

_HOST = re.compile(r"(?P<name>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BrowserServer:
    """Serves cockpits to browsers. Use as `async with BrowserServer(…) as door`.

    Args:
        command: The command line of one cockpit.
        host: The address to listen at, or a name of it.
        port: 0 takes any that is free.
    """

    def __init__(self, command: Sequence[str], *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.token = secrets.token_urlsafe(32)
        self._command = command
        self._host = host
        self._port = port
        self._cockpits: set[BrowserCockpit] = set()
        self._page = Template((_OURS / "index.html").read_text(encoding="utf-8"))
        self._runner: web.AppRunner | None = None

    @property
    def address(self) -> str:
        """What a person opens, with the token in it."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        if self._is_everywhere:
            host = "127.0.0.1"
        return f"http://{host}:{self._port}/{self.token}/"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self._host == "localhost" or _is_loopback(self._host)

    @property
    def cockpits(self) -> int:
        """How many browsers have one."""
        return len(self._cockpits)

    async def open(self) -> None:
        """Listen.

        Raises:
            OwnerError: where the address is taken or none of this machine's.
        """
        app = web.Application(middlewares=[self._guarded])
        app.on_response_prepare.append(self._harden)
        app.router.add_get("/{token}", self._show_page)
        app.router.add_get("/{token}/", self._show_page)
        app.router.add_get("/{token}/ws", self._show_cockpit)
        app.router.add_get("/{token}/{asset}", self._show_asset)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=LEFT_BEHIND_S)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except (OSError, OverflowError) as problem:
            await runner.cleanup()
            said = problem.strerror if isinstance(problem, OSError) else str(problem)
            raise OwnerError(
                f"cannot serve at {self._host}, port {self._port}: {said}",
                hint="`--port 0` takes any port that is free.",
            ) from None
        self._runner = runner
        self._port = runner.addresses[0][1]

    async def close(self) -> None:
        """End every cockpit, then listen no more."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        for site in tuple(runner.sites):
            await site.stop()
        await self.end_cockpits()
        await runner.cleanup()

    async def end_cockpits(self) -> None:
        """End every cockpit; their pages offer to open another."""
        await asyncio.gather(*(cockpit.stop() for cockpit in tuple(self._cockpits)))

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Who may come in.

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        host = _HOST.fullmatch(request.headers.get("Host", ""))
        if host is None or not self._answers_to(host["name"].strip("[]").lower()):
            return _refusal(403, "Zoea is not served under this name.")
        origin = request.headers.get("Origin")
        if origin is not None and not _is_same(origin, host[0]):
            return _refusal(403, "This is not for pages of other sites.")
        given = request.path.split("/")[1]
        if not secrets.compare_digest(given.encode("utf-8", "replace"), self.token.encode()):
            return _refusal(401, "Open the whole address that `zoea serve` printed: it holds a token.")
        return await handler(request)

    def _answers_to(self, name: str) -> bool:
        """True for names that nobody else can point at this machine."""
        if name in ("localhost", self._host.lower()):
            return True
        return _is_loopback(name) or (not self.is_loopback and _is_address(name))

    async def _harden(self, request: web.Request, response: web.StreamResponse) -> None:
        # A websocket counts as `self` in newer browsers only, so it is named; the host was checked by now.
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

    # What they get.

    async def _show_page(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text=self._page.substitute(base=f"/{self.token}"), content_type="text/html")

    async def _show_asset(self, request: web.Request) -> web.StreamResponse:
        found = ASSETS.get(request.match_info["asset"])
        if found is None:
            return _refusal(404, "There is nothing here.")
        file, kind = found
        return web.Response(body=await asyncio.to_thread(file.read_bytes), content_type=kind)

    async def _show_cockpit(self, request: web.Request) -> web.StreamResponse:
        if len(self._cockpits) >= MAX_COCKPITS or self._runner is None:
            return _refusal(503, f"There are {MAX_COCKPITS} cockpits already: close one.")
        browser = web.WebSocketResponse(
            timeout=GOODBYE_S, heartbeat=HEARTBEAT_S, max_msg_size=MAX_MESSAGE, compress=False
        )
        cockpit = BrowserCockpit(
            self._command, write_bytes=browser.send_bytes, write_text=browser.send_str, close=browser.close
        )
        self._cockpits.add(cockpit)
        try:
            await browser.prepare(request)
            await cockpit.start(_cells(request, "width", 80), _cells(request, "height", 24))
            async for message in browser:
                if message.type is WSMsgType.TEXT:
                    await cockpit.take(message.data)
        finally:
            await cockpit.stop()
            self._cockpits.discard(cockpit)
        return browser

    @property
    def _is_everywhere(self) -> bool:
        return _is_address(self._host) and ipaddress.ip_address(self._host).is_unspecified


def _cells(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, "")
    return int(text) if re.fullmatch(r"[0-9]{1,4}", text) else default


def _is_same(origin: str, host: str) -> bool:
    """Whether a page's origin is this host, behind TLS or not."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return _is_address(name) and ipaddress.ip_address(name).is_loopback


def _refusal(status: int, said: str) -> web.Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return web.Response(status=status, text=f"{said}\n", headers=headers)
