"""The one place that knows the HTTP library.

A client per provider over *lanes*: connections of our own that are handed out
last-in first-out. httpx's own pool looks at every connection twice for every
request (2.9 ms of CPU a request at 32 connections, and the square of it at 500);
the gate already bounds how many there are.

Deadlines are kept here, per read: to the first byte of the body, then between
bytes, whatever the bytes are (a keep-alive comment is a sign of life).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache, partial
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from zoea.llm.provider_config import Timeouts
from zoea.llm.transport.connection import Connection, connect, head_of
from zoea.llm.transport.inflating import inflated
from zoea.llm.transport.provider_errors import failure
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError

MAX_ERROR_BYTES = 64 * 1024
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
DRAIN_S = 0.25
WATCH_AGAIN_S = 0.05


@cache
def _trusting() -> ssl.SSLContext:
    """The certificates of the system; reading them takes 75–90 ms, once, and only for https."""
    return httpx.create_ssl_context()


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.") or host.endswith(".localhost")


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for this address; none for this machine itself."""
    parts = urlsplit(url)
    if is_loopback(url) or proxy_bypass(parts.hostname or ""):
        return None
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    return f"http://{found}" if found and "://" not in found else found


Origin = tuple[str, bytes]
"""The scheme and the server that a connection leads to."""


class Target:
    """An address, and the head of a request to it as it goes over the wire, made once."""

    def __init__(self, url: httpx.URL, headers: httpx.Headers) -> None:
        self.url = url
        self.origin: Origin = (url.scheme, url.netloc)
        self._headers = headers
        self._json_headers = httpx.Headers({**headers, "content-type": "application/json"})
        self._heads: dict[tuple[str, bool], bytes] = {}

    def headers(self, content: bytes | None) -> httpx.Headers:
        return self._headers if content is None else self._json_headers

    def head(self, method: str, content: bytes | None) -> bytes:
        """The request's line and headers, with the empty line. Raises httpx.LocalProtocolError for a broken header."""
        head = self._heads.get((method, content is None))
        if head is None:
            head = self._heads[method, content is None] = head_of(method, self.url, self.headers(content))
        return head + (b"\r\n" if content is None else b"content-length: %d\r\n\r\n" % len(content))


class _Body(httpx.AsyncByteStream):
    """A response's body that gives its connection back when it is closed."""

    def __init__(self, connection: Connection, release: Callable[[Connection], None]) -> None:
        self._connection: Connection | None = connection
        self._release = release

    @property
    def is_whole(self) -> bool:
        """True where all of it has arrived, read or not."""
        return self._connection is None or self._connection.is_whole

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        data = await self._connection.read() if self._connection is not None else b""
        if not data:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._release(connection)

    def abort(self) -> None:
        """Break the connection off: a read that waits ends as broken."""
        if self._connection is not None:
            self._connection.abort()


class Lanes:
    """The way to a server over connections of our own, the most recently used first.

    A server may close a connection it said it would keep (llama.cpp does so after each
    stream) in the instant in which the next request leaves. When not one byte of an
    answer has come on a connection that was used before, the request goes out once
    more, on a new one.
    """

    def __init__(self) -> None:
        self._idle: list[tuple[Origin, Connection]] = []
        self._closed = False

    async def ask(self, target: Target, method: str, content: bytes | None, patience: Timeouts) -> httpx.Response:
        """Send a request and wait for the head of its answer. Raises httpx.HTTPError."""
        request = target.head(method, content) + (content or b"")
        used = self._rested(target.origin)
        if used is not None:
            before = used.received
            try:
                return await self._ask(used, target.origin, request)
            except (httpx.ReadError, httpx.RemoteProtocolError):
                if used.received > before:
                    raise
        scheme = target.origin[0]
        if scheme not in ("http", "https"):
            raise httpx.UnsupportedProtocol(f"{scheme or 'an address without scheme'} is not http or https")
        opened = await connect(target.url, _trusting() if scheme == "https" else None, patience.connect)
        return await self._ask(opened, target.origin, request)

    async def _ask(self, connection: Connection, origin: Origin, request: bytes) -> httpx.Response:
        try:
            await connection.ask(request)
        except BaseException:
            connection.abort()
            raise
        body = _Body(connection, partial(self._release, origin))
        return httpx.Response(connection.status, headers=connection.headers, stream=body)

    def _rested(self, origin: Origin) -> Connection | None:
        """The newest idle connection to this server; what cannot be used any more is closed on the way."""
        for place in range(len(self._idle) - 1, -1, -1):
            at, connection = self._idle[place]
            if not connection.is_usable:
                connection.abort()
                del self._idle[place]
            elif at == origin:
                del self._idle[place]
                return connection
        return None

    def _release(self, origin: Origin, connection: Connection) -> None:
        if self._closed or not connection.is_usable:
            connection.abort()
        else:
            self._idle.append((origin, connection))

    async def close(self) -> None:
        """Close what is idle now, and what is under way when it ends."""
        self._closed = True
        idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.abort()
        await asyncio.sleep(0)  # the loop closes the sockets in its next round


class Proxied:
    """The way to a server behind a proxy: httpx's own."""

    def __init__(self, proxy: str) -> None:
        self._transport = httpx.AsyncHTTPTransport(verify=_trusting(), trust_env=False, proxy=proxy)

    async def ask(self, target: Target, method: str, content: bytes | None, patience: Timeouts) -> httpx.Response:
        """Send a request and wait for the head of its answer. Raises httpx.HTTPError."""
        seconds = {"connect": patience.connect, "read": None, "write": patience.first, "pool": None}
        headers = target.headers(content)
        request = httpx.Request(method, target.url, headers=headers, content=content, extensions={"timeout": seconds})
        return await self._transport.handle_async_request(request)

    async def close(self) -> None:
        await self._transport.aclose()


class Reply:
    """An answer whose head has come. `read` gives the body's bytes as they arrive.

    One timer watches the whole answer and is set again only when it fires: a read
    costs no timer of its own. When it finds silence it shuts the socket down, which
    ends the read that waits.
    """

    __slots__ = (
        "_between",
        "_body",
        "_expired",
        "_heard",
        "_name",
        "_reading",
        "_response",
        "_timer",
        "_until",
        "headers",
        "status",
    )

    def __init__(self, response: httpx.Response, name: str, until: float, between: float) -> None:
        self._response = response
        self._name = name
        assert isinstance(response.stream, httpx.AsyncByteStream)
        self._body = inflated(response.stream.__aiter__(), response.headers.get("content-encoding", ""))
        self._between = between
        self._until = until
        self._heard = False
        self._reading = False
        self._expired = False
        self._timer: asyncio.TimerHandle | None = asyncio.get_running_loop().call_at(until, self._watch)
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() < self._until or not self._reading:
            self._timer = loop.call_at(max(self._until, loop.time() + WATCH_AGAIN_S), self._watch)
            return
        self._timer = None
        self._expired = True
        if isinstance(self._response.stream, _Body):
            self._response.stream.abort()
            return
        with contextlib.suppress(OSError):  # it may have been closed from the other side just now
            self._response.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    async def read(self) -> bytes | None:
        """The next bytes, or None at the end. Raises ProviderError (transient) when they do not come."""
        if self._heard:
            self._until = _time() + self._between
        self._reading = True
        try:
            piece = await anext(self._body, None)
        except httpx.HTTPError as error:
            if self._expired:
                raise _silent(self._name, self._heard, self._between) from None
            raise broken(error, self._name) from error
        finally:
            self._reading = False
        if self._expired and piece is None:
            raise _silent(self._name, self._heard, self._between)
        if not self._heard:
            self._heard = True
            self._until = _time() + self._between
            if self._timer is not None:
                self._timer.cancel()
                self._timer = asyncio.get_running_loop().call_at(self._until, self._watch)
        return piece

    async def body(self, limit: int = MAX_ERROR_BYTES) -> bytes:
        """The whole body, cut at `limit` bytes."""
        parts: list[bytes] = []
        size = 0
        while size < limit and (piece := await self.read()) is not None:
            parts.append(piece)
            size += len(piece)
        return b"".join(parts)[:limit]

    async def drain(self) -> None:
        """Read what little may follow the last event, so that the connection can be used again."""
        if isinstance(self._response.stream, _Body) and self._response.stream.is_whole:
            return
        try:
            async with asyncio.timeout(DRAIN_S):
                while await anext(self._body, None) is not None:
                    pass
        except (TimeoutError, httpx.HTTPError):
            return  # then it is closed instead

    async def close(self) -> None:
        """Give the connection back if the body was read to its end, else close it at once."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self._response.aclose()


def _time() -> float:
    return asyncio.get_running_loop().time()


class Http:
    """One provider's way out. Made lazily: neither socket nor certificates before the first request."""

    def __init__(
        self, base_url: str, *, name: str, headers: Mapping[str, str] | None = None, timeouts: Timeouts | None = None
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.name = name
        self.timeouts = timeouts or Timeouts()
        self._headers = httpx.Headers(
            {"user-agent": "zoea", "accept": "*/*", "accept-encoding": "identity", **(headers or {})}
        )
        self._way: Lanes | Proxied | None = None
        self._targets: dict[str, Target] = {}

    def _target(self, path: str) -> Target:
        target = self._targets.get(path)
        if target is None:
            try:
                urlsplit(self.base_url)
                url = httpx.URL(path if "://" in path else self.base_url + path)
            except (httpx.InvalidURL, ValueError) as error:
                raise failure(
                    ErrorClass.BAD_REQUEST,
                    f"the address of {self.name} cannot be read: {error}",
                    title="The provider's address is wrong",
                    hint="Correct the provider's base_url in the settings.",
                ) from error
            target = self._targets[path] = Target(url, self._headers)
        return target

    async def open(self, method: str, path: str, content: bytes | None = None) -> Reply:
        """Send a request and wait for the head of its answer.

        `path` is appended to the base address, or a whole address. The caller
        closes the reply. Raises ProviderError (transient) where no answer came.
        """
        target = self._target(path)
        if self._way is None:
            proxy = proxy_for(self.base_url)
            self._way = Lanes() if proxy is None else Proxied(proxy)
        until = _time() + self.timeouts.first
        try:
            async with asyncio.timeout_at(until):
                response = await self._way.ask(target, method, content, self.timeouts)
        except TimeoutError:
            raise _silent(self.name, False, self.timeouts.first) from None
        except httpx.HTTPError as error:
            raise broken(error, self.name) from error
        return Reply(response, self.name, until, self.timeouts.between)

    async def document(
        self, method: str, path: str, content: bytes | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request and read its whole answer: status, headers, body."""
        reply = await self.open(method, path, content)
        try:
            return reply.status, reply.headers, await reply.body(MAX_DOCUMENT_BYTES)
        finally:
            await reply.close()

    async def close(self) -> None:
        way, self._way = self._way, None
        if way is not None:
            await way.close()


def _silent(name: str, began: bool, seconds: float) -> ProviderError:
    what = f"{name} sent nothing for {seconds:g} s in mid-answer" if began else f"{name} sent nothing in time"
    return failure(ErrorClass.TRANSIENT, what, title="The provider fell silent")


def broken(error: httpx.HTTPError, name: str) -> ProviderError:
    """A connection that could not be made, or broke."""
    said: Any = str(error) or type(error).__name__
    match error:
        case httpx.ConnectTimeout():
            what, title = f"{name} could not be reached in time", "The provider cannot be reached"
        case httpx.UnsupportedProtocol():
            return failure(
                ErrorClass.BAD_REQUEST,
                f"the address of {name} cannot be used: {said}",
                title="The provider's address is wrong",
                hint="Give base_url with http:// or https:// in the settings.",
            )
        case httpx.DecodingError():
            return failure(
                ErrorClass.BAD_REQUEST,
                f"the answer of {name} cannot be unpacked: {said}",
                title="The provider sent no answer",
                hint="Check the provider's base_url, and what stands between it and Zoea.",
            )
        case httpx.ConnectError() if _distrusts(error):
            return failure(
                ErrorClass.BAD_REQUEST,
                f"the certificate of {name} is not trusted: {said}",
                title="The provider's certificate is not trusted",
                hint="Install the authority's certificate on this system, or correct the provider's base_url.",
            )
        case httpx.ConnectError():
            return failure(
                ErrorClass.TRANSIENT,
                f"{name} could not be reached: {_why_unreachable(error) or said}",
                title="The provider cannot be reached",
                hint="Check that it runs and that base_url is right; Zoea tries again by itself.",
            )
        case _:
            what, title = f"the connection to {name} broke: {said}", "The connection to the provider broke"
    return failure(ErrorClass.TRANSIENT, what, title=title)


def _why_unreachable(error: BaseException) -> str:
    """The two usual reasons in words; empty for others, which the system's own words tell best."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ConnectionRefusedError):
            return "nothing listens at its address"
        if isinstance(seen, socket.gaierror):
            return "the host in its address is not known"
        seen = seen.__cause__ or seen.__context__
    return ""


def _distrusts(error: BaseException) -> bool:
    """True where a certificate was the reason, however deep the libraries have wrapped it."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
