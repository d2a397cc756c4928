"""One pool of HTTP connections for all upstreams of this process.

One client per upstream would cost a TLS context (75 to 90 ms) each. The SDK ends the whole
session if one request cannot connect, and hides the status of refusals; here both become
JSON-RPC errors of the request, with codes that say whether it was sent.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import httpx2
from mcp_types import INVALID_REQUEST

from zoea.tools.upstream.bounded_network import BoundedNetwork
from zoea.tools.upstream.checked_answer import CheckedEvents, check_any_answer
from zoea.tools.upstream.http_refusal import (
    describe_other_answer,
    describe_refusal,
    name_status_in,
    names_lost_session,
    read_sentence,
)
from zoea.tools.upstream.large_answer import LargeAnswers
from zoea.tools.upstream.session_traffic import SessionTraffic
from zoea.tools.upstream.unreadable_answer import UNREADABLE, RequestKey, find_key, to_key
from zoea.tools.upstream.upstream_errors import UNTRUSTED, WRONG

logger = logging.getLogger(__name__)

NOT_SENT = -32096
"""The request certainly never reached the server."""
BROKEN = -32097
"""The connection broke after the request had begun to leave."""
REFUSED = -32098
"""The server answered with an HTTP error that is not a JSON-RPC message."""
TERMINATED = "Session terminated"
"""How the error of a session begins that the server has no longer; the SDK calls it so too."""

TIMEOUT = httpx2.Timeout(10.0, read=None, pool=None)
"""Reads have no limit: calls have deadlines of their callers, and a stream of notices may be silent for days."""
MAX_LINE_BYTES = 32 * 1024 * 1024
"""The longest message of a server, as over stdio."""
MAX_ERROR_BYTES = 64 * 1024
"""The longest body of a refusal: the SDK parses it in the event loop."""
_ASK_TO_WAIT = frozenset({408, 409, 425, 429})
"""Statuses of a refusal that a later request may not meet."""
_EVENTS = "text/event-stream"
_SESSION_HEADER = "mcp-session-id"
REFUSAL_S = 5.0
"""Limit for reading the body of a refusal."""
DELETE_S = 2.0
"""Limit for the request that ends a session."""
_LIMITS = httpx2.Limits(max_connections=256, max_keepalive_connections=64, keepalive_expiry=30.0)
_KEEP_ALIVE = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
_OF_THE_BODY = frozenset({"content-length", "transfer-encoding", "content-type"})
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


class HttpPool:
    """The shared connections, opened at first use; its creator closes it."""

    def __init__(self) -> None:
        self._transport: httpx2.AsyncHTTPTransport | None = None

    @asynccontextmanager
    async def client(
        self, headers: Mapping[str, str], traffic: SessionTraffic, large: LargeAnswers
    ) -> AsyncIterator[httpx2.AsyncClient]:
        """Open a client for one session, with its upstream's headers, on the shared connections."""
        if self._transport is None:
            self._transport = httpx2.AsyncHTTPTransport(limits=_LIMITS, socket_options=_KEEP_ALIVE)
            connections = self._transport._pool
            connections._network_backend = BoundedNetwork(connections._network_backend)
        async with httpx2.AsyncClient(
            transport=_ErrorTransport(self._transport, traffic, large), headers=dict(headers), timeout=TIMEOUT
        ) as client:
            yield client

    async def close(self) -> None:
        """Close all connections; later use opens new ones."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()


class _ErrorTransport(httpx2.AsyncBaseTransport):
    """Turns a failed POST into a JSON-RPC error response."""

    def __init__(self, inner: httpx2.AsyncHTTPTransport, traffic: SessionTraffic, large: LargeAnswers) -> None:
        self._inner = inner
        self._traffic = traffic
        self._large = large

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "DELETE":
            request.extensions["timeout"] = httpx2.Timeout(DELETE_S).as_dict()
        if request.method != "POST":
            response = await self._send(request)
            return await self._checked(response, _kind(response), None)
        try:
            response = await self._send(request)
            kind = _kind(response)
            if response.status_code < 400 and (key := _key_of(await request.aread())) is not None:
                return await self._checked(response, kind, key, has_session=_SESSION_HEADER in request.headers)
        except _NEVER_SENT as error:
            return _connect_error(error)
        except httpx2.TransportError as error:
            return _error(BROKEN, f"the connection broke ({str(error) or type(error).__name__})")
        return response if response.status_code < HTTPStatus.BAD_REQUEST else await _refuse(request, response)

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        # A compressed answer could be a thousand times its size; the check of answers reads them as they come.
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            await response.aclose()
            raise httpx2.ReadError(f"the answer is compressed as {encoding[:40]!r}, which was not requested")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        limit = MAX_LINE_BYTES if response.status_code < HTTPStatus.BAD_REQUEST else MAX_ERROR_BYTES
        response.stream = _BoundedStream(response.stream, limit, in_lines=_kind(response).startswith(_EVENTS))
        return response

    async def _checked(
        self, response: httpx2.Response, kind: str, key: RequestKey | None, *, has_session: bool = False
    ) -> httpx2.Response:
        """Return the answer to a request, checked to be its own."""
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        if kind.startswith(_EVENTS):
            response.stream = CheckedEvents(response.stream, key, self._traffic, self._large)
        elif key is not None and response.status_code == HTTPStatus.ACCEPTED:
            await response.aclose()
            return _error(UNREADABLE, "HTTP 202 Accepted, without an answer")
        elif key is not None and not response.has_redirect_location:
            body = await _read_body(response)
            if has_session and len(body) <= MAX_ERROR_BYTES and b'"jsonrpc"' not in body:
                text = read_sentence(body)
                if names_lost_session(response.status_code, text, is_message=False):
                    return _error(INVALID_REQUEST, f"{TERMINATED} (HTTP {response.status_code}: {text})")
            if not kind.startswith("application/json") and body.lstrip()[:1] != b"{":
                return _error(WRONG, describe_other_answer(response.status_code, kind, body))
            headers = {name: value for name, value in response.headers.items() if name.lower() not in _OF_THE_BODY}
            headers["content-type"] = "application/json"
            content = await check_any_answer(body, key, self._large)
            return httpx2.Response(response.status_code, headers=headers, content=content)
        return response

    async def aclose(self) -> None:
        """Do nothing: the connections belong to the pool."""


class _BoundedStream(httpx2.AsyncByteStream):
    """A body of bounded length. With `in_lines` each of its lines is bounded, because a stream has no end."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int, *, in_lines: bool) -> None:
        self._inner = inner
        self._limit = limit
        self._in_lines = in_lines

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._inner:
            newline = piece.rfind(b"\n") if self._in_lines else -1
            size = size + len(piece) if newline < 0 else len(piece) - newline - 1
            if size > self._limit:
                raise httpx2.ReadError(f"a message of over {self._limit // 1024:,} kB")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


def _kind(response: httpx2.Response) -> str:
    """Return the type of a body, in lower case."""
    kind: str = response.headers.get("content-type", "").lower()
    return kind


def _key_of(request: bytes) -> RequestKey | None:
    """Return the id of a request; None for a notification or an answer."""
    if b'"method"' not in request:
        return None
    key = find_key(request)
    if key is None:
        message = json.loads(request)
        key = to_key(message.get("id")) if "method" in message else None
    return key


async def _refuse(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """Turn an HTTP error into a JSON-RPC error that keeps status and sentence."""
    status = response.status_code
    body = b""
    try:
        async with asyncio.timeout(REFUSAL_S):
            body = await _read_body(response)
    except (TimeoutError, httpx2.TransportError):
        logger.info("the reason of a refusal (HTTP %d) did not arrive", status)
    error = name_status_in(body, status)
    text = describe_refusal(status, response.headers, body) if error is None else error[1]
    if _SESSION_HEADER in request.headers and names_lost_session(status, text, is_message=error is not None):
        return _error(INVALID_REQUEST, f"{TERMINATED} ({text})")
    if error is not None:
        return _error(*error)
    return _error(WRONG if 400 <= status < 500 and status not in _ASK_TO_WAIT else REFUSED, text)


async def _read_body(response: httpx2.Response) -> bytes:
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    try:
        return b"".join([piece async for piece in response.stream])
    finally:
        await response.aclose()


def _connect_error(error: Exception) -> httpx2.Response:
    """Say why there is no connection. The first cause is that of the system or of the certificate check."""
    cause: BaseException = error
    while (earlier := cause.__cause__ or cause.__context__) is not None:
        cause = earlier
    match cause:
        case ssl.SSLCertVerificationError():
            return _error(UNTRUSTED, f"cannot connect: its certificate is not trusted ({cause.verify_message})")
        case ConnectionRefusedError():
            why = "nothing listens at its address"
        case socket.gaierror():
            why = "the host in its address is not known"
        case _:
            why = type(error).__name__
    return _error(NOT_SENT, f"cannot connect: {why}")


def _error(code: int, message: str, data: Any = None) -> httpx2.Response:
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return httpx2.Response(502, headers={"content-type": "application/json"}, content=json.dumps(body).encode())
