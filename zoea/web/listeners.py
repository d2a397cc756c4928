"""Open an HTTP server on every address of a host, with bounds for its connections."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from zoea.model.errors import OwnerError
from zoea.process.connection_limit import BoundedListener, ConnectionLimit


def _describe_refusal(record: logging.LogRecord) -> bool:
    """Log a request that is no HTTP in one line. Its text is left out, because it may hold a token."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError):
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args = "a request was refused, because it is no HTTP: %s", (type(error).__name__,)
        record.exc_info = None
    return True


SHUTDOWN_S = 0.5
"""Time for open requests when a server closes."""
_log = logging.getLogger("zoea.web.requests")  # where aiohttp logs requests that fail
_log.addFilter(_describe_refusal)


async def listen(
    app: web.Application, host: str, port: int, limit: ConnectionLimit, *, what: str, hint: str, **options: Any
) -> tuple[web.AppRunner, int]:
    """Serve an application at every address of a host; return its runner and the port.

    Args:
        port: 0 takes any free port.
        what: What the error says of the attempt, such as `cannot serve`.
        hint: What the error advises.
        options: More arguments of the runner.

    Raises:
        OwnerError: The address is in use or not of this machine.
    """
    runner = web.AppRunner(
        app, access_log=None, logger=_log, handle_signals=False, shutdown_timeout=SHUTDOWN_S, **options
    )
    await runner.setup()
    try:
        for listener in await _bind(host, port):
            await web.SockSite(runner, BoundedListener(listener, limit)).start()
    except (OSError, OverflowError) as problem:
        await runner.cleanup()
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise OwnerError(f"{what} at {host}, port {port}: {reason}", hint=hint) from None
    return runner, runner.addresses[0][1]


async def _bind(host: str, port: int) -> list[socket.socket]:
    """Bind a socket to each address of a host. Raises OSError, and OverflowError for an impossible port."""
    addresses = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
    )
    bound: list[socket.socket] = []
    try:
        for family, kind, protocol, _name, address in dict.fromkeys(addresses):
            listener = socket.socket(family, kind, protocol)
            bound.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen()  # a second server at the address fails here
    except BaseException:
        for listener in bound:
            listener.close()
        raise
    return bound


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
