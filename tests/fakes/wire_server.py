"""A small HTTP/1.1 server on loopback that the fake vendors share.

It is raw asyncio because the fakes must misbehave below the level of any framework: stop in the middle of a chunk,
close without an answer, stall between bytes. Every request is kept with its arrival time and an event for the moment
when its client went away.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


@dataclass(slots=True)
class Received:
    """One request. `at` is `time.monotonic()` when its last byte arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Outgoing:
    """The answer to one request. Everything written is sent at once."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def whole(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send a complete answer with its length."""
        given = {"content-type": "application/json", **(headers or {}), "content-length": str(len(body))}
        self._transport.write(self._head(status, given) + body)

    def json(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        self.whole(status, json.dumps(body).encode(), headers)

    def begin(self, content_type: str, headers: Mapping[str, str] | None = None, status: int = 200) -> None:
        """Send the head of a chunked answer."""
        kept = {"connection": "keep-alive", "transfer-encoding": "chunked"}
        given = {"content-type": content_type, **(headers or {}), **kept}
        self._transport.write(self._head(status, given))

    def piece(self, data: bytes) -> None:
        if data:
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        self._transport.write(b"0\r\n\r\n")

    def interim(self, status: int) -> None:
        """Send an interim answer, after which the answer follows."""
        self._transport.write(self._head(status, {}))

    def cut(self) -> None:
        """Close the connection in mid-answer."""
        self._transport.close()

    @staticmethod
    def _head(status: int, headers: Mapping[str, str]) -> bytes:
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class WireServer:
    """Base of the fakes: subclasses answer in `handle`.

    Use as `async with FakeX() as server: server.url`. With `answers_per_connection` the server closes a connection at
    the request after so many, though every answer said that it is kept.
    """

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.url = ""
        self.connections = 0
        self.answers_per_connection: int | None = None
        self._server: asyncio.Server | None = None
        self._open: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Event()

    async def handle(self, request: Received, out: Outgoing) -> None:
        raise NotImplementedError

    async def start(self, port: int = 0) -> str:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", port, backlog=2048)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self.url

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._open):
            connection.drop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def requests(self, count: int, timeout: float = 10.0) -> list[Received]:
        """Wait until that many requests have come; fails at the deadline."""
        async with asyncio.timeout(timeout):
            while len(self.received) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return self.received

    def _take(self, connection: _Connection, request: Received) -> None:
        self.received.append(request)
        self._arrived.set()
        work: Coroutine[Any, Any, None] = self.handle(request, Outgoing(connection.transport))
        task = asyncio.get_running_loop().create_task(work)
        connection.task = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Connection(asyncio.Protocol):
    """One client's connection: reads requests from the bytes, one at a time."""

    transport: asyncio.Transport

    def __init__(self, server: WireServer) -> None:
        self._server = server
        self._buffer = b""
        self._request: Received | None = None
        self._answered = 0
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._server.connections += 1
        self._server._open.add(self)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._buffer += data
        while (cut := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:cut].decode("latin-1").split("\r\n")
            headers = {
                name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])
            }
            end = cut + 4 + int(headers.get("content-length", "0"))
            if len(self._buffer) < end:
                return
            if self._answered == self._server.answers_per_connection:
                self.transport.close()
                return
            self._answered += 1
            method, path, _ = head[0].split(" ", 2)
            body, self._buffer = self._buffer[cut + 4 : end], self._buffer[end:]
            self._request = Received(method, path, headers, body, time.monotonic())
            self._server._take(self, self._request)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._server._open.discard(self)
        if self._request is not None:
            self._request.gone.set()
        if self.task is not None:
            self.task.cancel()

    def drop(self) -> None:
        self.transport.abort()
