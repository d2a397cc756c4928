"""Serves answers of models and MCP servers that take far more memory than network bytes.

Outside of `make soak` bodies and the bounds of their readers are a quarter of their real size.
"""

from __future__ import annotations

import asyncio
import json
import os
import zlib
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, NamedTuple, Self

MIB = 2**20
SCALE = 1 if os.environ.get("ZOEA_SOAK") else 4
PIECE = 64 * 1024 // SCALE
WHOLE = 96 * MIB // SCALE
"""Bytes after which a server ends a body: more than any bound."""
SHOWN = b'{"model_info":{"a.context_length":65536},"capabilities":["tools"]}'
EVENTS, LINES, DOCUMENT = "text/event-stream", "application/x-ndjson", "application/json"
DEEP = b"[" * 50 + b"]" * 50 + b","
EMOJI = "\U0001f600".encode()


class Body(NamedTuple):
    """A body without end, in pieces."""

    kind: str
    pieces: Callable[[], Iterator[bytes]]
    encoding: str = ""


def _event(**value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _choice(**delta: Any) -> bytes:
    return _event(choices=[{"delta": delta}])


def _repeat(part: bytes, before: bytes = b"") -> Callable[[], Iterator[bytes]]:
    def pieces() -> Iterator[bytes]:
        yield before
        while True:
            yield part * max(1, PIECE // len(part))

    return pieces


def _number(make: Callable[[int], bytes]) -> Callable[[], Iterator[bytes]]:
    def pieces() -> Iterator[bytes]:
        numbers = count()
        while True:
            yield b"".join(make(next(numbers)) for _ in range(50))

    return pieces


def _close(before: bytes, part: bytes, after: bytes, size: float, times: int = 1) -> Callable[[], Iterator[bytes]]:
    """Make bodies of so many MiB each at real size, which end as they should."""

    def pieces() -> Iterator[bytes]:
        for _ in range(times):
            yield before
            block = part * max(1, PIECE // len(part))
            for _ in range(int(size * MIB) // SCALE // len(block)):
                yield block
            yield after

    return pieces


def _call(number: int, **more: Any) -> bytes:
    calls = [{"id": f"{number}-{place}", "function": {"name": "scan"}, **more} for place in range(50)]
    return _choice(tool_calls=calls)


def _block(number: int) -> bytes:
    return _event(type="content_block_start", index=number, content_block={"type": "a", "x": [[]] * 100})


_WIDE = b'data: {"choices":[{"delta":{"content":"' + EMOJI
_WIDE_DELTA = (
    b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text"}}\n\n'
    b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"' + EMOJI
)
_RESULT = b'{"jsonrpc":"2.0","id":1,"result":{"a":"'
BODIES: dict[str, dict[str, Body]] = {
    "openai": {
        "lines that are no event": Body(EVENTS, _repeat(b"ab\n")),
        "compressed lines": Body(EVENTS, _repeat(b"ab\n"), "gzip"),
        "an event of many lines": Body(EVENTS, _repeat(b"data:ab\n")),
        "long texts with an emoji": Body(EVENTS, _close(_WIDE, b"x", b'"}}]}\n\n', 15.8, times=4)),
        "many texts with an emoji": Body(EVENTS, _repeat(_WIDE + b"x" * 1000 + b'"}}]}\n\n')),
        "lists in lists": Body(EVENTS, _close(b'data: {"usage":[', DEEP, b"[]]}\n\n", 10.0, times=6)),
        "reasons": Body(EVENTS, _number(lambda n: _choice(reasoning_details=[{"index": n, "a": [[]] * 50}]))),
        "calls": Body(EVENTS, _number(_call)),
        "calls with more": Body(EVENTS, _number(lambda n: _call(n, extra_content=[[]] * 50))),
        "a document of lines": Body(DOCUMENT, _repeat(b"ab\n")),
        "a compressed document": Body(DOCUMENT, _repeat(b"x"), "gzip"),
    },
    "anthropic": {
        "lines that are no event": Body(EVENTS, _repeat(b"ab\n")),
        "compressed lines": Body(EVENTS, _repeat(b"ab\n"), "gzip"),
        "a long text with an emoji": Body(EVENTS, _close(_WIDE_DELTA, b"x", b'"}}\n\n', 15.8)),
        "blocks": Body(EVENTS, _number(_block)),
        "names in the usage": Body(
            EVENTS, _number(lambda n: _event(type="message_delta", usage={f"{n}-{place}": 1 for place in range(100)}))
        ),
        "a document of lines": Body(DOCUMENT, _repeat(b"ab\n")),
    },
    "ollama": {
        "compressed texts": Body(LINES, _repeat(b'{"message":{"content":"ab"}}\n'), "gzip"),
        "a long text with an emoji": Body(LINES, _close(b'{"message":{"content":"' + EMOJI, b"x", b'"}}\n', 15.8)),
        "calls": Body(LINES, _repeat(b'{"message":{"tool_calls":[{}' + b",{}" * 5_000 + b"]}}\n")),
        "a document of lists": Body(DOCUMENT, _close(b'{"a":[', DEEP, b"[]]}", 15.8)),
    },
    "mcp": {
        "a document": Body(DOCUMENT, _repeat(b"x")),
        "a compressed document": Body(DOCUMENT, _repeat(b"x"), "gzip"),
        "a long text with an emoji": Body(DOCUMENT, _close(_RESULT + EMOJI, b"x", b'"}}', 31.8)),
        "a long text with a bad byte": Body(DOCUMENT, _close(_RESULT + EMOJI + b"\xff", b"x", b'"}}', 31.8)),
        "a document of lists": Body(DOCUMENT, _close(_RESULT[:-1] + b"[", DEEP, b"[]]}}", 31.8)),
        "an event with an emoji": Body(EVENTS, _close(b"data: " + _RESULT + EMOJI, b"x", b'"}}\n\n', 31.8)),
        "an event that is no JSON": Body(EVENTS, _close(b"data: ", b"x", b"\n\n", 31.8)),
        "an event of many lines": Body(EVENTS, _close(b"data: " + _RESULT, b"\rdata:x", b'"}}\n\n', 31.8)),
        "an event without a message": Body(EVENTS, _close(b"event: x\n", b"id: x\n", b"\n\n", 31.8)),
        "a long event without a message": Body(EVENTS, _close(b"id: ", b"x", b"\n\n", 31.8)),
    },
}


class EndlessBodies:
    """Sends the body that a path's first part names, as fast as its client reads."""

    def __init__(self, bodies: dict[str, Body]) -> None:
        self._bodies = list(bodies.values())
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if b"/api/show " in head:
                writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + SHOWN)
                await writer.drain()
                return
            body = self._bodies[int(head.split(b"/", 2)[1])]
            encoding = f"content-encoding: {body.encoding}\r\n" if body.encoding else ""
            writer.write(
                f"HTTP/1.1 200 OK\r\ncontent-type: {body.kind}\r\n{encoding}connection: close\r\n\r\n".encode()
            )
            packer, sent = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16), 0
            for piece in body.pieces():
                sent += len(piece)
                writer.write(packer.compress(piece) if body.encoding else piece)
                await writer.drain()
                if sent > WHOLE:
                    break
            writer.write(packer.flush() if body.encoding else b"")
            await writer.drain()
        except ConnectionError:
            return  # the client gave up, which it should
        finally:
            writer.close()
