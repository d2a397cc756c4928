"""HTTP client of one provider, over aiohttp's connections.

aiohttp parses, pools, encrypts and goes through proxies. On top of it are the limits of this package: deadlines per
read, bounded decompression, one TLS context per process, and a `ProviderError` for every failure. aiohttp bounds
lines and headers (8,190 bytes, 128 headers), `bounded_protocol` heads and what is no answer, `HttpProvider` the whole
answer. Redirects are never followed:
the request carries a key.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping
from contextvars import ContextVar
from functools import cache, partial
from http import HTTPStatus
from ssl import SSLContext
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

import aiohttp
import httpx
from aiohttp.connector import Connection
from yarl import URL

from zoea.llm.provider_config import Timeouts, is_loopback
from zoea.llm.transport.bounded_protocol import BoundedResponseHandler
from zoea.llm.transport.connection_errors import FAILURES, connection_error, protocol_error, silence_error
from zoea.llm.transport.provider_errors import provider_error
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError

MAX_ERROR_BYTES = 64 * 1024
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
MAX_BODY_S = 120.0
"""How long the body of a list, a document or an error may take, however steadily it comes."""
MAX_PIECE_BYTES = 256 * 1024
"""The most that is decompressed, or handed to the socket, at once."""
LARGE_REQUEST_BYTES = 2**20
"""aiohttp warns of larger bodies in one piece, because writing them holds up the event loop."""
KEEP_ALIVE_S = 60.0
DRAIN_S = 0.25
WATCH_AGAIN_S = 0.05
NO_HEADERS: Mapping[str, str] = {}
READ_BYTES = 16 * 1024
"""The most that one read of a body returns, before decompression."""
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_is_reused: ContextVar[bool] = ContextVar("is_reused", default=False)
"""True in a request's context once it has got a connection that carried another request before."""

T = TypeVar("T")


@cache
def trusted_certificates() -> SSLContext:
    """Return the TLS context of this process. Reading the certificates takes 75-90 ms."""
    return httpx.create_ssl_context()


def proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for this address; None for loopback."""
    parts = urlsplit(url)
    if is_loopback(url) or proxy_bypass(parts.hostname or ""):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


class _Address(NamedTuple):
    """Where a request goes: the whole URL, which is sent as it is, and the header `host`."""

    url: URL
    host: str
    is_encrypted: bool


class HttpClient:
    """Sends requests to one provider. Opens neither sockets nor certificates before the first request.

    Paths are appended to `base_url`; errors hold `name`.
    """

    def __init__(
        self, base_url: str, *, name: str, headers: Mapping[str, str] | None = None, timeouts: Timeouts | None = None
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.name = name
        self.timeouts = timeouts or Timeouts()
        # A body is compressed only by servers and proxies that ignore this: streams come faster plain.
        default = {"user-agent": "zoea", "accept": "*/*", "accept-encoding": "identity"}
        self._headers = httpx.Headers({**default, **(headers or {})})
        self._pool: _ConnectionPool | None = None
        self._addresses: dict[str, _Address] = {}

    async def open(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        first_s: float | None = None,
        more_headers: Mapping[str, str] = NO_HEADERS,
    ) -> HttpReply:
        """Send a request and wait for the head of its answer.

        `path` is appended to the base address, or a whole address. `first_s` replaces the deadline for the first
        byte, and holds between bytes until `HttpReply.expect_steady`. The caller closes the reply. `more_headers`
        are for this request alone; they stand in place of the client's own of the same name.
        Raises ProviderError: transient where no answer came, bad_request for a wrong address or header.
        """
        address = self._addresses.get(path)
        if address is None:
            address = self._addresses[path] = self._read_address(path if "://" in path else self.base_url + path)
        pool = self._pool = self._pool or _ConnectionPool(
            self._headers, self._proxy(), self.timeouts.connect, is_encrypted=address.is_encrypted
        )
        pool.enter()
        try:
            return await self._open(pool, method, address, content, first_s, more_headers)
        except BaseException:
            await pool.leave()
            raise

    async def read_document(
        self, method: str, path: str, content: bytes | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request and read its whole answer: status, headers, body."""
        reply = await self.open(method, path, content)
        try:
            return reply.status, reply.headers, await reply.read_all(MAX_DOCUMENT_BYTES)
        finally:
            await reply.close()

    async def close(self) -> None:
        """Close the connections when the last open reply is closed. A later request opens new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def _open(
        self,
        pool: _ConnectionPool,
        method: str,
        address: _Address,
        content: bytes | None,
        first_s: float | None,
        more_headers: Mapping[str, str],
    ) -> HttpReply:
        within = self.timeouts.first if first_s is None else first_s
        between = self.timeouts.between if first_s is None else max(first_s, self.timeouts.between)
        deadline = _ReadDeadline(within, between)
        response: aiohttp.ClientResponse | None = None
        try:
            response = await deadline.wait_for(self._send(pool.session, method, address, content, more_headers))
        except aiohttp.ServerTimeoutError as error:  # a TimeoutError too, of the connection
            raise connection_error(error, self.name) from error
        except TimeoutError:
            raise silence_error(self.name, within, has_begun=False) from None
        except FAILURES as error:
            raise connection_error(error, self.name) from error
        finally:
            if response is None:
                deadline.cancel()
        if response.status == HTTPStatus.SWITCHING_PROTOCOLS:
            deadline.cancel()
            response.close()
            raise protocol_error(self.name)
        return HttpReply(response, pool, self.name, deadline, between)

    async def _send(
        self,
        session: aiohttp.ClientSession,
        method: str,
        address: _Address,
        content: bytes | None,
        more_headers: Mapping[str, str],
    ) -> aiohttp.ClientResponse:
        """Send the request; send it again if its pooled connection turns out to be closed.

        A server may close a connection it said it would keep (llama.cpp does after each stream) just when the next
        request leaves. Such a request is repeated only if not one byte of an answer came.
        """
        headers = {**more_headers, "host": address.host}
        if content is not None:
            headers["content-type"] = "application/json"
            headers["content-length"] = str(len(content))
        while True:
            # A large body comes in pieces, and again for each attempt.
            is_large = content is not None and len(content) > LARGE_REQUEST_BYTES
            body = _pieces(content) if content is not None and is_large else content or None
            _is_reused.set(False)
            try:
                return await session.request(
                    method,
                    address.url,
                    headers=headers,
                    data=body,
                    allow_redirects=False,
                    auto_decompress=False,
                )
            except aiohttp.ClientError as error:
                if not (_is_reused.get() and _is_unanswered(error)):
                    raise

    def _read_address(self, address: str) -> _Address:
        """Check the address and the headers, once for each path. Credentials in the address are left out."""
        try:
            urlsplit(address)
            url = httpx.URL(address).copy_with(userinfo=b"")
        except (httpx.InvalidURL, ValueError) as error:
            raise self._refusal(f"the address of {self.name} cannot be read: {error}") from error
        if url.scheme not in ("http", "https"):
            raise self._refusal(
                f"the address of {self.name} cannot be used: "
                f"{url.scheme or 'an address without scheme'} is not http or https",
                "Give base_url with http:// or https:// in the settings.",
            )
        for name, value in self._headers.raw:
            if any(byte in value for byte in b"\r\n\0"):
                raise provider_error(
                    ErrorClass.BAD_REQUEST,
                    f"the header {name.decode('ascii', 'replace')} for {self.name} has a line break in its value",
                    title="The provider's key or a header is wrong",
                    hint="Correct the provider's api_key or headers in the settings.",
                )
        return _Address(URL(str(url), encoded=True), url.netloc.decode("ascii"), url.scheme == "https")

    def _refusal(self, what: str, hint: str = "Correct the provider's base_url in the settings.") -> ProviderError:
        return provider_error(ErrorClass.BAD_REQUEST, what, title="The provider's address is wrong", hint=hint)

    def _proxy(self) -> str | None:
        proxy = proxy_for(self.base_url)
        if proxy is not None and urlsplit(proxy).scheme not in ("http", "https"):
            raise provider_error(
                ErrorClass.BAD_REQUEST,
                f"the proxy for {self.name} cannot be used: {urlsplit(proxy).scheme} is not http or https",
                title="The proxy cannot be used",
                hint="Name an HTTP proxy in the environment (https_proxy, http_proxy, all_proxy).",
            )
        return proxy


class _ConnectionPool:
    """The connections of one client, and the headers that it sends. The gate bounds how many there are.

    Certificates are read for https only; plain addresses keep aiohttp's own context, which is then not used.
    """

    def __init__(self, headers: httpx.Headers, proxy: str | None, connect_s: float, *, is_encrypted: bool) -> None:
        context = trusted_certificates() if is_encrypted or urlsplit(proxy or "").scheme == "https" else None
        self.session = aiohttp.ClientSession(
            connector=_Connector(limit=0, ssl=context or True, keepalive_timeout=KEEP_ALIVE_S),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=proxy,
            timeout=aiohttp.ClientTimeout(total=None, connect=connect_s, sock_connect=connect_s),
        )
        self._users = 0
        self._is_closing = False

    def enter(self) -> None:
        """Count a request in; `leave` counts it out when its reply is closed."""
        self._users += 1

    async def leave(self) -> None:
        self._users -= 1
        if self._is_closing and not self._users:
            await self.session.close()

    async def close(self) -> None:
        """Close the connections now, or when the last request that is under way has left."""
        self._is_closing = True
        if not self._users:
            await self.session.close()


class _Connector(aiohttp.TCPConnector):
    """A pool that knows used connections, and drops those that received unasked data.

    aiohttp would take an unasked answer for the answer of the next request.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory: Any = partial(BoundedResponseHandler, asyncio.get_running_loop())
        self._used: WeakSet[object] = WeakSet()

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            assert protocol is not None
            if not protocol.should_close:
                break
            connection.close()
        _is_reused.set(protocol in self._used)
        self._used.add(protocol)
        return connection


class HttpReply:
    """An answer with its head read. `read` returns the body's bytes as they arrive."""

    __slots__ = (
        "_between",
        "_body",
        "_deadline",
        "_has_begun",
        "_name",
        "_pool",
        "_response",
        "content_type",
        "status",
    )

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        pool: _ConnectionPool,
        name: str,
        deadline: _ReadDeadline,
        between: float,
    ) -> None:
        self._response = response
        encoding = ", ".join(response.headers.getall("content-encoding", ()))
        self._body = _decompress(response.content.iter_chunked(READ_BYTES), encoding)
        self._pool: _ConnectionPool | None = pool
        self._name = name
        self._between = between
        self._deadline = deadline
        self._has_begun = False
        self.status = response.status
        self.content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the answer; names in any case."""
        return httpx.Headers(self._response.raw_headers)

    def list_headers(self) -> dict[str, str]:
        """Return the headers by name in lower case."""
        headers: dict[str, str] = {}
        try:
            for name, value in self._response.raw_headers:
                key, text = name.decode("ascii").lower(), value.decode("ascii")
                headers[key] = f"{headers[key]}, {text}" if key in headers else text
        except UnicodeDecodeError:
            return dict(self.headers.items())
        return headers

    def expect_steady(self, between: float) -> None:
        """Set the longest silence between bytes, from the next read on."""
        self._between = between

    async def read(self) -> bytes | None:
        """Return the next bytes, or None at the end. Raises ProviderError (transient) when they do not come in time."""
        if self._has_begun:
            self._deadline.at = _time() + self._between
        try:
            piece = await self._deadline.wait_for(anext(self._body, None))
        except TimeoutError:
            raise silence_error(self._name, self._between, has_begun=self._has_begun) from None
        except FAILURES as error:
            raise connection_error(error, self._name) from error
        if not self._has_begun:
            self._has_begun = True
            self._deadline.restart(_time() + self._between)
        return piece

    async def read_all(self, limit: int = MAX_ERROR_BYTES, *, within: float = MAX_BODY_S) -> bytes:
        """Return the whole body, cut at `limit` bytes. Raises ProviderError (transient) where it takes longer.

        The silence between two bytes has its own limit, which a server that sends a byte now and then never reaches.
        """
        parts: list[bytes] = []
        size, ends = 0, _time() + within
        while size < limit and (piece := await self.read()) is not None:
            parts.append(piece)
            size += len(piece)
            if _time() > ends:
                what = f"{self._name} sent its answer for {within:g} s, and did not end it"
                raise provider_error(ErrorClass.TRANSIENT, what, title="The provider's answer has no end")
        return b"".join(parts)[:limit]

    async def drain(self) -> None:
        """Read the rest after the last event, so that the connection can be used again."""
        if self._response.content.at_eof():
            return
        try:
            async with asyncio.timeout(DRAIN_S):
                while await anext(self._body, None) is not None:
                    pass
        except (TimeoutError, *FAILURES):
            return  # then it is closed instead

    async def close(self) -> None:
        """Return the connection to the pool after the whole body, else close it."""
        self._deadline.cancel()
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            await _close(self._body)
            self._response.release()
            await self._response.wait_for_close()
        finally:
            await pool.leave()


class _ReadDeadline:
    """Ends a request, or a read of its answer, that waits too long.

    One timer serves them all and is set again only when it fires. As
    `asyncio.Timeout` does, it cancels the task that reads; a cancellation from elsewhere passes through.

    Args:
        within, between: Seconds until the deadline for the head, and from one byte to the next.
    """

    __slots__ = ("_has_expired", "_loop", "_reader", "_timer", "at")

    def __init__(self, within: float, between: float) -> None:
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self.at = now + within
        self._reader: asyncio.Task[Any] | None = None
        self._has_expired = False
        # Mostly the head comes before the earlier time, and the timer need not be moved then.
        self._timer = self._loop.call_at(now + min(within, between), self._check)

    async def wait_for(self, read: Awaitable[T]) -> T:
        """Await the read. Raises TimeoutError when the deadline passes first."""
        reader = asyncio.current_task()
        assert reader is not None
        cancelling = reader.cancelling()
        self._reader = reader
        try:
            return await read
        except asyncio.CancelledError:
            if self._has_expired and reader.uncancel() <= cancelling:
                raise TimeoutError from None
            raise
        finally:
            self._reader = None

    def restart(self, at: float) -> None:
        """Move the deadline to an earlier time. A later one is seen when the timer fires."""
        self.at = at
        if self._timer.when() > at:
            self._timer.cancel()
            self._timer = self._loop.call_at(at, self._check)

    def cancel(self) -> None:
        self._timer.cancel()

    def _check(self) -> None:
        now = self._loop.time()
        if self._reader is None or now < self.at:
            self._timer = self._loop.call_at(max(self.at, now + WATCH_AGAIN_S), self._check)
            return
        self._has_expired = True
        self._reader.cancel()


def _time() -> float:
    return asyncio.get_running_loop().time()


def _is_unanswered(error: BaseException | None) -> bool:
    """True where the connection ended before any byte of an answer came.

    The message of `ServerDisconnectedError` is the part of the head that came, or a text where none did.
    """
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return isinstance(error.message, str)
    return isinstance(error, aiohttp.ClientOSError) and not isinstance(error, aiohttp.ClientConnectorError)


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), MAX_PIECE_BYTES):
        yield content[start : start + MAX_PIECE_BYTES]


def _decompress(body: AsyncIterator[bytes], encoding: str) -> AsyncIterator[bytes]:
    """Return the body's bytes without their compression; `encoding` is the header's value."""
    encoding = encoding.strip().lower()
    return body if encoding in ("", "identity") else _inflate(body, encoding)


async def _inflate(body: AsyncIterator[bytes], encoding: str) -> AsyncIterator[bytes]:
    """Decompress in pieces of bounded size: a small body may hold a thousand times its length."""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise httpx.DecodingError(f"it is compressed as {encoding[:40]!r}, which was not requested")
    inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        async for packed in body:
            rest = packed
            while rest and not inflater.eof:
                try:
                    piece = inflater.decompress(rest, MAX_PIECE_BYTES)
                except zlib.error as error:
                    raise httpx.DecodingError(f"it is not compressed as its header says: {error}") from error
                rest = inflater.unconsumed_tail
                if piece:
                    yield piece
                if rest:
                    await asyncio.sleep(0)  # lets other tasks run: one small piece may take seconds
    finally:
        await _close(body)


async def _close(body: AsyncIterator[bytes]) -> None:
    if isinstance(body, AsyncGenerator):
        await body.aclose()
