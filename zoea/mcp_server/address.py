"""Where MCP clients over HTTP are served: the address, the socket bound to it, and how a process is told of both.

Apart from the server, whose SDK takes longer to load than the owner's loop may be held up.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from zoea.model.errors import OwnerError
from zoea.settings.paths import Places
from zoea.settings.schema import McpSettings

PATH = "/mcp"
BEAT_S = 5.0


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and under which further names clients may call."""

    host: str
    port: int
    hosts: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: McpSettings) -> Address:
        return cls(settings.host, settings.port, settings.hosts)

    @property
    def names(self) -> tuple[str, ...]:
        """All names under which clients may call, beside those of this machine itself."""
        return (self.host, *self.hosts)


def listen(host: str, port: int) -> socket.socket:
    """A socket that holds its address. Raises OwnerError naming the address and what to change."""
    try:
        listener = _tcp(socket.AF_INET6 if ":" in host else socket.AF_INET)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            # Else a second one could be bound beside it, and would fail only where it is served.
            listener.listen()
        except BaseException:
            listener.close()
            raise
    except (OSError, OverflowError, ValueError, TypeError) as problem:  # the latter two: of a host that can be none
        raise OwnerError(
            f"cannot listen at {host}:{port}: {problem}", hint="Set mcp.port or mcp.host to another, or --port."
        ) from None
    return listener


def _tcp(family: int, number: int | None = None) -> socket.socket:
    # Named TCP, else asyncio leaves Nagle's algorithm on and every answer waits 40 ms for an acknowledgement.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, number)


def url_of(listener: socket.socket) -> str:
    """The URL that clients use."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


class ServerOptions(NamedTuple):
    """What the process that serves an owner's clients is told.

    Args:
        data, config, runtime: The workspace's directories.
        names: Under which clients may call, beside those of this machine itself.
        level: What is logged from.
        descriptor, family: The bound socket, which the process inherits.
        beat_s: How often it gives a sign of life, in seconds.
    """

    data: str
    config: str
    runtime: str
    names: tuple[str, ...]
    level: str
    descriptor: int
    family: int
    beat_s: float = BEAT_S

    @classmethod
    def of(cls, places: Places, address: Address, level: str, listener: socket.socket) -> ServerOptions:
        data, config, runtime = map(str, (places.data, places.config, places.runtime))
        return cls(data, config, runtime, address.names, level, listener.fileno(), listener.family, BEAT_S)

    @classmethod
    def read(cls, text: str) -> ServerOptions:
        """The errand that `written` wrote."""
        return cls(*json.loads(text))

    def written(self) -> str:
        return json.dumps(self)

    @property
    def places(self) -> Places:
        return Places(Path(self.data), Path(self.config), Path(self.runtime))

    def listener(self) -> socket.socket:
        """The inherited socket."""
        return _tcp(self.family, self.descriptor)
