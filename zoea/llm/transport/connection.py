"""One connection to a server: HTTP/1.1 as httpx wants it, without a pool's and a stream's cost per read.

A streamed answer is twenty and more small chunks. httpcore over h11 spends about a
quarter of a whole turn's CPU on them (an object and a coroutine or two per chunk);
here httptools parses in C as the bytes arrive, and a read takes all that has come.
Deadlines are kept above (`http.Reply`), so that a read here just waits.
"""

from __future__ import annotations

import asyncio
import ssl

import httptools
import httpx

HIGH_WATER = 256 * 1024
HAPPY_EYEBALLS_S = 0.25
KEEP_ALIVE_S = 60.0

Headers = list[tuple[bytes, bytes]]


class Connection(asyncio.Protocol):
    """Carries one request after the other. The server is slowed down while 256 KiB of an answer wait unread.

    `received` counts every byte that ever came. Failures are httpx's own errors.
    """

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self.received = 0
        self.status = 0
        self.headers: Headers = []
        self.is_whole = True
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)
        self._is_asked = False
        self._has_head = False
        self._is_bounded = False
        self._keeps = True
        self._is_over = False
        self._error: Exception | None = None
        self._body: list[bytes] = []
        self._size = 0
        self._is_full = False
        self._reader: asyncio.Future[None] | None = None
        self._idle_since = 0.0

    @property
    def is_usable(self) -> bool:
        """True where it may carry another request: nothing came unasked, and it did not rest too long."""
        rested = asyncio.get_running_loop().time() - self._idle_since
        return self.is_whole and self._keeps and not self._is_over and not self._is_full and rested < KEEP_ALIVE_S

    async def ask(self, request: bytes) -> None:
        """Send a request and wait for the head of its answer: then `status` and `headers` are there."""
        self._is_asked, self._has_head, self.is_whole = True, False, False
        self._body.clear()  # of the answer before, what nobody read
        self._size = 0
        self._transport.write(request)
        while not self._has_head:
            self._raise_broken()
            await self._news()

    async def read(self) -> bytes:
        """All of the body that has arrived; empty at its end."""
        while not self._body:
            if self.is_whole:
                return b""
            self._raise_broken()
            await self._news()
        data = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body.clear()
        self._size = 0
        if self._is_full:
            self._is_full = False
            if not self._is_over:
                self._transport.resume_reading()
        return data

    def abort(self) -> None:
        """Close at once; what waits unread is gone. A read that waits ends as broken."""
        self._transport.abort()

    async def _news(self) -> None:
        self._reader = asyncio.get_running_loop().create_future()
        try:
            await self._reader
        finally:
            self._reader = None

    def _raise_broken(self) -> None:
        if self._error is not None:
            raise self._error
        if self._is_over:
            raise httpx.RemoteProtocolError("the server closed the connection before its answer was whole")

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        if not self._is_asked:  # nobody asked: whatever it says, the next answer could not be told from it
            self._end(None)
            self._transport.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._end(httpx.RemoteProtocolError("the server wants to speak another protocol"))
            self._transport.abort()
        except httptools.HttpParserError as error:
            self._end(httpx.RemoteProtocolError(f"the server's answer is not HTTP: {error}"))
            self._transport.abort()
        if self._size > HIGH_WATER and not self._is_full and not self._is_over:
            self._is_full = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self._end(None)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        lost = None if exc is None else httpx.ReadError(str(exc) or type(exc).__name__)
        if lost is not None:
            lost.__cause__ = exc
        self._end(lost)

    def _end(self, error: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        if not self.is_whole:
            if error is None and self._has_head and not self._is_bounded:
                self.is_whole = True  # a body without a length ends with its connection
            else:
                self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self.is_whole:  # a second answer to one question
            self._keeps = False
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.is_whole:
            return
        self.status = self._parser.get_status_code()
        if self.status < 200:  # an interim answer; the real one follows
            return
        self._has_head = True
        self._is_bounded = any(
            name.lower() == b"content-length" or (name.lower() == b"transfer-encoding" and b"chunked" in value.lower())
            for name, value in self.headers
        )

    def on_body(self, body: bytes) -> None:
        if not self.is_whole:
            self._body.append(body)
            self._size += len(body)

    def on_message_complete(self) -> None:
        if not self._has_head or self.is_whole:
            return
        self.is_whole = True
        self._is_asked = False
        self._keeps = self._keeps and self._parser.should_keep_alive()
        self._idle_since = asyncio.get_running_loop().time()


async def connect(url: httpx.URL, context: ssl.SSLContext | None, timeout: float | None) -> Connection:
    """Open a connection to the server of this address; with `context` an encrypted one.

    Raises httpx.ConnectTimeout and httpx.ConnectError.
    """
    loop = asyncio.get_running_loop()
    port = url.port or (80 if context is None else 443)
    host = url.raw_host.decode("ascii").strip("[]")
    try:
        async with asyncio.timeout(timeout):
            _, connection = await loop.create_connection(
                Connection,
                host,
                port,
                ssl=context,
                server_hostname=host if context is not None else None,
                happy_eyeballs_delay=HAPPY_EYEBALLS_S,
            )
    except TimeoutError as error:
        raise httpx.ConnectTimeout(f"no connection within {timeout:g} s") from error
    except (OSError, ssl.CertificateError) as error:
        raise httpx.ConnectError(str(error)) from error
    return connection


def head_of(method: str, url: httpx.URL, headers: httpx.Headers) -> bytes:
    """A request's line and headers, up to where its length would stand.

    Raises httpx.LocalProtocolError where a header would break out of its line.
    """
    lines = [method.encode("ascii"), b" ", url.raw_path, b" HTTP/1.1\r\nhost: ", url.netloc, b"\r\n"]
    for name, value in headers.raw:
        if b"\n" in value or b"\r" in value or b"\0" in value:
            said = name.decode("ascii", "replace")
            raise httpx.LocalProtocolError(f"the value of the header {said} has a line break")
        lines += (name, b": ", value, b"\r\n")
    return b"".join(lines)
