"""How the answer to an agent's request is read, and written to the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from aiohttp import web

from zoea.llm.messages.wire_bodies import Wire
from zoea.llm.providers.anthropic_stream import MessageStreamDecoder
from zoea.llm.providers.http_provider import EventFeeder, ForwardedHead, StreamDecoder, check_complete
from zoea.llm.providers.openai_stream import ChatStreamDecoder
from zoea.llm.providers.responses_stream import ResponseStreamDecoder
from zoea.model.request import Delta

BATCH_BYTES = 4_096
STREAM = "text/event-stream"
BEGUN = web.RequestKey("begun", web.StreamResponse)
"""The answer to a request whose head was sent."""
WRITE_S = 60.0
"""How long a client may take to read a piece of its answer."""
LARGE_BODY = 256 * 1024
"""Bytes above which a body is read in a thread."""
_KEPT_HEADERS = ("content-type", "retry-after", "retry-after-ms", "x-should-retry", "request-id", "x-request-id")


class ClientGone(Exception):
    """The client of a request went away, or does not read its answer."""


class AnswerReader:
    """Feeds a decoder with an answer that is streamed, or comes in one piece.

    Pieces of a stream are decoded together, which costs half as much; the client has each of them already.
    """

    def __init__(self, provider: str, decoder: StreamDecoder, secrets: tuple[str, ...]) -> None:
        self.is_stream = True
        self._provider = provider
        self._secrets = secrets
        self._decoder = decoder
        self._feeder = EventFeeder(provider, decoder)
        self._pieces: list[bytes] = []
        self._size = 0

    async def feed(self, data: bytes) -> Delta | None:
        self._pieces.append(data)
        self._size += len(data)
        return await self.flush() if self.is_stream and self._size >= BATCH_BYTES else None

    async def flush(self) -> Delta | None:
        """Decode the pieces of a stream that came since. Raises ProviderError for an error among them."""
        if not self.is_stream or not self._pieces:
            return None
        data, self._pieces, self._size = b"".join(self._pieces), [], 0
        heard = await self._feeder.feed(data)
        return heard if isinstance(heard, Delta) else None

    async def end(self) -> Delta | None:
        """Take the end of the answer. Raises ProviderError where it broke off."""
        if not self.is_stream:
            whole = b"".join(self._pieces)
            await in_thread_if_large(len(whole), self._decoder.feed_whole, whole)
            return None
        delta = self._decoder.end()
        check_complete(self._decoder, self._provider, self._secrets)
        return delta


def make_decoder(wire: Wire, provider: str, model: str, secrets: tuple[str, ...]) -> StreamDecoder:
    """Return what decodes the answers of a wire; its errors show no secret."""
    match wire:
        case Wire.CHAT:
            return ChatStreamDecoder(provider, model, secrets=secrets)
        case Wire.MESSAGES:
            return MessageStreamDecoder(provider, model, secrets=secrets)
        case Wire.RESPONSES:
            return ResponseStreamDecoder(provider, model, secrets=secrets)


async def write(response: web.StreamResponse, transport: asyncio.BaseTransport | None, data: bytes) -> None:
    """Write to the client. Raises ClientGone where it does not read, or is gone."""
    if not data:
        return None
    try:
        if isinstance(transport, asyncio.WriteTransport) and not transport.get_write_buffer_size():
            return await response.write(data)  # a timer for each piece would cost more than the piece
        async with asyncio.timeout(WRITE_S):
            await response.write(data)
    except (TimeoutError, ConnectionError) as error:
        raise ClientGone from error


async def begin(head: ForwardedHead, request: web.Request) -> web.StreamResponse:
    """Send the head of an answer."""
    response = web.StreamResponse(status=head.status, headers=keep_headers(head.headers))
    await response.prepare(request)
    request[BEGUN] = response
    return response


async def end_badly(response: web.StreamResponse, transport: asyncio.BaseTransport | None, event: bytes) -> None:
    """End an answer that has begun: a stream by an event, any other by breaking it off."""
    # What goes on after the end of an answer may fail too.
    with suppress(ClientGone, RuntimeError):
        if response.content_type == STREAM:
            return await write(response, transport, event)
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()
    return None


def keep_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a provider's answer that go on to the agent."""
    return {"cache-control": "no-store"} | {name: headers[name] for name in _KEPT_HEADERS if name in headers}


async def in_thread_if_large(size: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function, in a thread where what it reads is large."""
    if size > LARGE_BODY:
        return await asyncio.to_thread(function, *arguments)
    return function(*arguments)
