"""No test reaches a real model: connections leave loopback only as an error."""

from __future__ import annotations

import socket
from typing import Any

_connect = socket.socket.connect


def keep_to_loopback() -> None:
    """Refuse connections of this process to other machines from now on. A patch for each test would cost time."""
    socket.socket.connect = _connect_to_loopback  # type: ignore[method-assign,assignment]  # for all tests


def _connect_to_loopback(self: socket.socket, address: Any) -> None:
    if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
        raise OSError(f"tests reach loopback only, not {address[0]}")
    _connect(self, address)


def _is_loopback(host: str) -> bool:
    return host.startswith("127.") or host in ("::1", "localhost")
