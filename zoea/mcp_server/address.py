"""The address of the MCP server over HTTP, its socket and its process's options.

Does not import the SDK, because that would block the owner's loop for too long.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from zoea.model.errors import OwnerError
from zoea.settings.paths import Places
from zoea.settings.server_settings import McpSettings

PATH = "/mcp"
HEARTBEAT_S = 5.0


class Address(Struct, frozen=True):
    """The address to listen on, and further host names that clients may use."""

    host: str
    port: int
    hosts: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: McpSettings) -> Address:
        return cls(settings.host, settings.port, settings.hosts)

    @property
    def names(self) -> tuple[str, ...]:
        """Host names that clients may use, besides those of the loopback interface."""
        return (self.host, *self.hosts)


def listen(host: str, port: int) -> socket.socket:
    """Bind a socket and listen on it. Raises OwnerError with the address and the setting to change."""
    try:
        listener = _tcp(socket.AF_INET6 if ":" in host else socket.AF_INET)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            # Without it a second socket could be bound to the address, and would fail only later.
            listener.listen()
        except BaseException:
            listener.close()
            raise
    except (OSError, OverflowError, ValueError, TypeError) as problem:  # the last two come from invalid hosts
        raise OwnerError(
            f"cannot listen at {host}:{port}: {problem}",
            hint="Give another --port or --host, or change mcp.port or mcp.host in the settings.",
        ) from None
    return listener


def _tcp(family: int, number: int | None = None) -> socket.socket:
    # With the protocol named, asyncio turns Nagle's algorithm off; else every answer waits 40 ms.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, number)


def url_of(listener: socket.socket) -> str:
    """Return the URL for clients."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


class ServerOptions(NamedTuple):
    """Options of the process that serves an owner's clients. They are passed as JSON on its command line.

    Args:
        data, config, runtime: The workspace's directories.
        names: Host names that clients may use, besides those of the loopback interface.
        descriptor, family: Of the bound socket, which the process inherits.
    """

    data: str
    config: str
    runtime: str
    names: tuple[str, ...]
    level: str
    descriptor: int
    family: int
    heartbeat_s: float = HEARTBEAT_S

    @classmethod
    def of(cls, places: Places, address: Address, level: str, listener: socket.socket) -> ServerOptions:
        data, config, runtime = map(str, (places.data, places.config, places.runtime))
        return cls(data, config, runtime, address.names, level, listener.fileno(), listener.family, HEARTBEAT_S)

    @classmethod
    def from_json(cls, text: str) -> ServerOptions:
        """Parse the JSON of `to_json`."""
        return cls(*json.loads(text))

    def to_json(self) -> str:
        return json.dumps(self)

    @property
    def places(self) -> Places:
        return Places(Path(self.data), Path(self.config), Path(self.runtime))

    def listener(self) -> socket.socket:
        """Return the inherited socket."""
        return _tcp(self.family, self.descriptor)
