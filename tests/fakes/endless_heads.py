"""An HTTP server on loopback with heads, trailers or interim answers that do not end."""

from __future__ import annotations

import asyncio
from typing import Self

PIECE = 64 * 1024
_OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
_CHUNKED = _OK + b"transfer-encoding: chunked\r\n\r\n"
_WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

KINDS: dict[str, tuple[bytes, bytes]] = {
    "status line": (b"HTTP/1.1 200 ", b"x" * PIECE),
    "header name": (_OK, b"x" * PIECE),
    "header value": (_OK + b"x-long: ", b"x" * PIECE),
    "headers": (_OK, b"x-more: 1\r\n" * (PIECE // 11)),
    "folded header": (_OK + b"x-long: 1\r\n", b" folded\r\n" * (PIECE // 9)),
    "cookies": (_OK, b"set-cookie: a=b\r\n" * (PIECE // 17)),
    "interim answers": (b"", b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" * (PIECE // 41)),
    "chunk extension": (_CHUNKED + b"1;x=", b"x" * PIECE),
    "trailer value": (_CHUNKED + b"0\r\nx-long: ", b"x" * PIECE),
    "trailers": (_CHUNKED + b"0\r\n", b"x-more: 1\r\n" * (PIECE // 11)),
    "trailers after data": (_CHUNKED + b"7\r\n: ping\n\r\n0\r\n", b"x-more: 1\r\n" * (PIECE // 11)),
    "unasked answers": (_WHOLE, _WHOLE * (PIECE // len(_WHOLE))),
    "unasked heads": (_WHOLE, b"HTTP/1.1 200 OK\r\n" + b"x-more: 1\r\n" * (PIECE // 11)),
    "unasked bytes": (_WHOLE, b"x" * PIECE),
    "switch of protocols": (b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", b"x" * PIECE),
}
"""What is sent once, and then without end, by its name."""


class EndlessHeads:
    """Use as `async with EndlessHeads(kind) as server: server.url`. Sends at most `limit` bytes a connection."""

    def __init__(self, kind: str, *, limit: int = 64 * 2**20) -> None:
        self._first, self._piece = KINDS[kind]
        self._limit = limit
        self._server: asyncio.Server | None = None
        self.sent = 0
        self.closed = False
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self._first)
            sent = 0
            while sent < self._limit:
                writer.write(self._piece)
                await writer.drain()
                sent += len(self._piece)
                self.sent = max(self.sent, sent)
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # the client has had enough
        finally:
            self.closed = True
            writer.close()
