"""Connections of HTTP upstreams with bounded heads: size, and number of interim answers.

h11 bounds one head (100 kB) and trailers, but any number of interim answers may come before the answer.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable
from typing import Any

import httpcore2

MAX_HEAD_BYTES = 64 * 1024
MAX_INTERIM = 16
"""Interim answers (103 Early Hints and others) before an answer."""
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_INTERIM = re.compile(rb"HTTP/1\.[01] 1(?!01)\d\d")


class BoundedNetwork(httpcore2.AsyncNetworkBackend):
    """Opens connections with bounded heads of answers."""

    def __init__(self, inner: httpcore2.AsyncNetworkBackend) -> None:
        self._inner = inner

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return _BoundedHeads(await self._inner.connect_tcp(host, port, timeout, local_address, socket_options))

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class _BoundedHeads(httpcore2.AsyncNetworkStream):
    """A connection that checks what follows a request, up to the final answer's head."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner
        self._head: bytes | None = b""
        self._interim = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._inner.read(max_bytes, timeout)
        if self._head is not None:
            self._look_at(self._head + data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._head, self._interim = b"", 0
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        return _BoundedHeads(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)

    def _look_at(self, head: bytes) -> None:
        """Note how far the head came. Raises RemoteProtocolError when it is too long."""
        while (end := _END_OF_HEAD.search(head)) is not None:
            if end.start() > MAX_HEAD_BYTES:
                break
            if not _INTERIM.match(head):
                self._head = None
                return
            self._interim += 1
            if self._interim > MAX_INTERIM:
                raise httpcore2.RemoteProtocolError(f"over {MAX_INTERIM} interim answers")
            head = head[end.end() :]
        if len(head) > MAX_HEAD_BYTES:
            raise httpcore2.RemoteProtocolError(f"a head of over {MAX_HEAD_BYTES // 1024} kB")
        self._head = head
