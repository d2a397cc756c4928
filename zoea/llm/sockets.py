"""The connections under the HTTP library: plain asyncio, without a timer or a system call per read.

A streamed answer is twenty and more small reads. The library's own backend pauses
and resumes the socket and opens a cancel scope around each of them; without that a
request whose pieces arrive one by one costs a third less CPU (3.5 ms, now 2.4).
Deadlines are kept above (`http.Reply`), so that a read here just waits.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any

import httpcore

HIGH_WATER = 256 * 1024
HAPPY_EYEBALLS_S = 0.25


class SocketStream(httpcore.AsyncNetworkStream, asyncio.Protocol):
    """One connection. Reads are answered from what has arrived; the peer is slowed down beyond 256 KiB of it.

    `received` counts every byte that ever came.
    """

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self.received = 0
        self._arrived: list[bytes] = []
        self._size = 0
        self._is_over = False
        self._is_full = False
        self._error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._arrived.append(data)
        self._size += len(data)
        self.received += len(data)
        if self._size > HIGH_WATER and not self._is_full:
            self._is_full = True
            self._transport.pause_reading()
        self._wake_reader()

    def eof_received(self) -> bool:
        self._is_over = True
        self._wake_reader()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        self._error = exc
        self._wake_reader()
        self.resume_writing()

    def pause_writing(self) -> None:
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None and not writer.done():
            writer.set_result(None)

    def _wake_reader(self) -> None:
        reader = self._reader
        if reader is not None and not reader.done():
            reader.set_result(None)

    # What the HTTP library calls.

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if not self._arrived and not self._is_over:
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await asyncio.wait_for(self._reader, timeout) if timeout is not None else await self._reader
            except TimeoutError as error:
                raise httpcore.ReadTimeout(error) from error
            finally:
                self._reader = None
        if self._arrived:
            return self._take()
        if self._error is not None:
            raise httpcore.ReadError(self._error) from self._error
        return b""

    def _take(self) -> bytes:
        """All that has arrived; the parser above takes any size."""
        data = self._arrived[0] if len(self._arrived) == 1 else b"".join(self._arrived)
        self._arrived.clear()
        self._size = 0
        if self._is_full:
            self._is_full = False
            if not self._is_over:
                self._transport.resume_reading()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._is_over and self._transport.is_closing():
            raise httpcore.WriteError("the connection is closed")
        self._transport.write(buffer)
        if self._writer is not None:
            try:
                async with asyncio.timeout(timeout):
                    await asyncio.shield(self._writer)
            except TimeoutError as error:
                raise httpcore.WriteTimeout(error) from error

    async def aclose(self) -> None:
        self._transport.abort()
        await asyncio.sleep(0)  # the loop closes the socket in its next round

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                secured = await loop.start_tls(
                    self._transport, self, ssl_context, server_hostname=server_hostname or ""
                )
        except TimeoutError as error:
            await self.aclose()
            raise httpcore.ConnectTimeout(error) from error
        except (OSError, ssl.CertificateError) as error:
            await self.aclose()
            raise httpcore.ConnectError(error) from error
        except BaseException:
            await self.aclose()
            raise
        if secured is None:
            raise httpcore.ConnectError("the connection was closed during the TLS handshake")
        self._transport = secured
        return self

    def get_extra_info(self, info: str) -> Any:
        match info:
            case "is_readable":  # of an idle connection: then it was closed by the other side
                return self._is_over or bool(self._arrived)
            case "client_addr":
                return self._transport.get_extra_info("sockname")
            case "server_addr":
                return self._transport.get_extra_info("peername")
            case _:
                return self._transport.get_extra_info(info)


class SocketBackend(httpcore.AsyncNetworkBackend):
    """Opens `SocketStream`s; `newest` is the one it opened last."""

    def __init__(self) -> None:
        self.newest: SocketStream | None = None

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                _, stream = await loop.create_connection(
                    SocketStream, host, port, happy_eyeballs_delay=HAPPY_EYEBALLS_S
                )
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(error) from error
        except OSError as error:
            raise httpcore.ConnectError(error) from error
        self.newest = stream
        return stream

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
