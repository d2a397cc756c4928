"""Listening sockets that bound the connections of clients that have not identified themselves.

A connection is new until the server confirms it, for example after it has checked a token. A new
connection is closed after a deadline. Where no place is free, the oldest new one is closed, so that
silent connections never keep a client out that sends its request. A person must be able to look at a swarm and stop it,
also where upstreams, a leak or a low limit took every file descriptor: a reserve of them is for connections.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import resource
import socket
from typing import Any

log = logging.getLogger(__name__)

RESERVED = 16
REFILL_S = 1.0
USED_UP = (errno.EMFILE, errno.ENFILE)


class DescriptorReserve:
    """Holds descriptors of /dev/null that are closed where the process needs others.

    Args:
        size: How many it holds. It is filled again once a second, as far as there are free ones.
    """

    def __init__(self, size: int = RESERVED) -> None:
        self._size = size
        self._held: list[int] = []
        self._refill: asyncio.TimerHandle | None = None

    def fill(self) -> None:
        """Open the missing descriptors, as far as the limit of the process allows."""
        try:
            while len(self._held) < self._size:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as problem:
            if problem.errno not in USED_UP:
                raise

    def release(self) -> bool:
        """Close all of it; return whether that gave the process descriptors. Runs in the event loop."""
        freed, self._held = self._held, []
        for descriptor in freed:
            os.close(descriptor)
        if self._refill is None:
            self._refill = asyncio.get_running_loop().call_later(REFILL_S, self._fill_again)
        if freed:
            log.warning("all file descriptors of this process are in use; %d of the reserve were freed", len(freed))
        return bool(freed)

    def close(self) -> None:
        """Close all of it for good."""
        if self._refill is not None:
            self._refill.cancel()
        for descriptor in self._held:
            os.close(descriptor)
        self._held = []

    def _fill_again(self) -> None:
        self._refill = None
        self.fill()
        if len(self._held) < self._size:
            self._refill = asyncio.get_running_loop().call_later(REFILL_S, self._fill_again)


RESERVED_DESCRIPTORS = 512
"""Descriptors that connections leave free: for the socket of fronts, the database, providers and upstreams."""
SMALLEST = 16

Peer = tuple[str, int] | int
"""The address and port of a TCP client; the descriptor of any other connection."""

CLOSING = 8
"""Connections over the total, while those closed for them end."""


def fit_to_descriptors(most: int) -> int:
    """Return how many connections a server may hold under this process's limit of files. At most `most`."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(SMALLEST, min(most, (soft - RESERVED_DESCRIPTORS) // 2))


class ConnectionLimit:
    """Bounds the open connections of one server.

    Args:
        total: Connections at once, confirmed and new.
        new_per_address: New connections of one address at once; None is no such bound.
        deadline_s: Seconds until a new connection that is not confirmed is closed.
    """

    def __init__(self, total: int, new_per_address: int | None, deadline_s: float) -> None:
        self.total = total
        self.deadline_s = deadline_s
        self._new_per_address = new_per_address
        self._open: dict[Peer, BoundedConnection] = {}
        self._new: dict[Peer, BoundedConnection] = {}

    def add(self, connection: BoundedConnection) -> bool:
        """Count a new connection; return False if there is no place for it.

        Where places run out, the oldest new connection, or the oldest of this address, is closed for it.
        """
        excess = len(self._open) - self.total
        if excess >= 0 and (not self._new or excess >= CLOSING):
            log.warning("%d connections are open, so further ones are refused", len(self._open))
            return False
        if excess >= 0:
            log.warning("%d connections are open: the oldest one without a valid request is closed", self.total)
            self.close(min(self._new, key=lambda peer: self._new[peer].is_prolonged))  # the first of the smallest
        silent = (other for other in self._new.values() if not other.is_prolonged)
        same = [other.peer for other in silent if other.network == connection.network]
        if self._new_per_address is not None and len(same) >= self._new_per_address:
            log.warning("%s opens many connections without a valid request: the oldest is closed", connection.network)
            self.close(same[0])
        self._open[connection.peer] = self._new[connection.peer] = connection
        connection.due = asyncio.get_running_loop().call_later(self.deadline_s, self.close, connection.peer)
        return True

    def confirm(self, peer: Peer) -> None:
        """Exempt a connection from the deadline and from being closed for another one."""
        if (confirmed := self._new.pop(peer, None)) is not None:
            confirmed.cancel_deadline()

    def prolong(self, peer: Peer, deadline_s: float) -> None:
        """Extend the time limit of a connection that made a valid request.

        It counts no longer for its address, and is closed for another one only after those without a request.
        """
        if (connection := self._new.get(peer)) is not None:
            connection.is_prolonged = True
            connection.cancel_deadline()
            connection.due = asyncio.get_running_loop().call_later(deadline_s, self.close, peer)

    def close(self, peer: Peer) -> None:
        """End a new connection: its server reads the end of the stream and closes it."""
        connection = self._new.pop(peer, None)
        if connection is None:
            return
        connection.cancel_deadline()
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError as problem:
            log.debug("a connection had ended already: %s", problem)

    def forget(self, connection: BoundedConnection) -> None:
        """Free the place of a closed connection."""
        if self._open.get(connection.peer) is connection:
            del self._open[connection.peer]
            self._new.pop(connection.peer, None)


class BoundedConnection(socket.socket):
    """An accepted connection, which frees its place when it is closed."""

    def __init__(self, accepted: socket.socket, address: Any, limit: ConnectionLimit) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        self.due: asyncio.TimerHandle | None = None
        self.is_prolonged = False
        self.network = _network(address)
        self.peer: Peer = (str(address[0]), int(address[1])) if self.network else self.fileno()
        self._limit = limit

    def close(self) -> None:
        """Close the socket and free its place."""
        self.cancel_deadline()
        super().close()
        self._limit.forget(self)

    def cancel_deadline(self) -> None:
        if self.due is not None:
            self.due.cancel()


class BoundedListener(socket.socket):
    """A listening socket under a `ConnectionLimit`; takes over the descriptor of `listener`.

    Args:
        reserve: Freed where the process has no descriptor left for a connection.
    """

    def __init__(
        self, listener: socket.socket, limit: ConnectionLimit, reserve: DescriptorReserve | None = None
    ) -> None:
        super().__init__(listener.family, listener.type, listener.proto, listener.detach())
        self.setblocking(False)
        self._limit = limit
        self._reserve = reserve
        self._has_accepted = False

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept one connection in each step of the loop. Those closed for it need a step to end.

        Raises:
            BlockingIOError: None waits, or it is not its step yet.
        """
        if self._has_accepted:
            self._has_accepted = False
            raise BlockingIOError
        while True:
            accepted, address = self._accept_or_free()
            connection = BoundedConnection(accepted, address, self._limit)
            if self._limit.add(connection):
                self._has_accepted = True
                return connection, address
            connection.close()

    def _accept_or_free(self) -> tuple[socket.socket, Any]:
        try:
            return super().accept()
        except OSError as problem:
            if problem.errno not in USED_UP or self._reserve is None or not self._reserve.release():
                raise
            return super().accept()


def _network(address: Any) -> str:
    """Return the address that a client's connections are counted by; empty for a local socket.

    IPv6 clients are counted by /64, because each has at least one.
    """
    if not isinstance(address, tuple):
        return ""
    host = ipaddress.ip_address(str(address[0]).partition("%")[0])
    if isinstance(host, ipaddress.IPv6Address) and host.ipv4_mapped is None and not host.is_loopback:
        return str(ipaddress.ip_network((host, 64), strict=False))
    return str(getattr(host, "ipv4_mapped", None) or host)
