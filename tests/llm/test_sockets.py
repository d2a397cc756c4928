"""The connections under the HTTP library: whole under pressure, honest about what broke."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpcore
import pytest

from zoea.llm.sockets import HIGH_WATER, SocketBackend

BothSides = tuple[ssl.SSLContext, ssl.SSLContext]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def connected(
    handler: Handler, context: ssl.SSLContext | None = None
) -> AsyncIterator[httpcore.AsyncNetworkStream]:
    """A connection to a server with this handler, which has ended when the context does."""
    handlers: list[asyncio.Task[None]] = []

    async def whole(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.append(task)
        with suppress(ConnectionError, ssl.SSLError):
            await handler(reader, writer)
        with suppress(ConnectionError, ssl.SSLError):
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(whole, "127.0.0.1", 0, ssl=context)
    stream = await SocketBackend().connect_tcp("127.0.0.1", server.sockets[0].getsockname()[1], timeout=5.0)
    try:
        yield stream
    finally:
        await stream.aclose()
        await asyncio.wait_for(asyncio.gather(*handlers), 5.0)
        server.close()
        await server.wait_closed()


async def read_all(stream: httpcore.AsyncNetworkStream) -> bytes:
    parts = []
    while data := await stream.read(65536):
        parts.append(data)
    return b"".join(parts)


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def stay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def test_more_than_may_wait_arrives_whole() -> None:
    sent = bytes(range(256)) * (HIGH_WATER // 64)

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()
        writer.close()

    async with connected(flood) as stream:
        first = await stream.read(65536)
        async with asyncio.timeout(10):
            assert first + await read_all(stream) == sent


async def test_a_reader_that_lags_slows_its_server_down() -> None:
    stopped = asyncio.Event()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(0)
        while not reader.at_eof():
            writer.write(b"x" * HIGH_WATER)
            try:
                await asyncio.wait_for(writer.drain(), 0.3)
            except (TimeoutError, ConnectionError):
                break
        stopped.set()
        writer.transport.abort()

    async with connected(flood), asyncio.timeout(20):
        await stopped.wait()


async def test_a_large_write_waits_for_a_slow_server() -> None:
    sent = b"y" * (8 * 1024 * 1024)
    got = asyncio.get_running_loop().create_future()
    begin = asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await begin.wait()
        got.set_result(len(await reader.readexactly(len(sent))))
        writer.close()

    async with connected(slow) as stream:
        with pytest.raises(httpcore.WriteTimeout):
            await stream.write(sent, timeout=0.05)
        begin.set()
        async with asyncio.timeout(10):
            assert await got == len(sent)


async def test_the_end_is_empty_and_a_reset_is_an_error() -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.close()

    async with connected(hang_up) as stream:
        assert await stream.read(10) == b""
        assert stream.get_extra_info("is_readable")
    async with connected(reset) as stream:
        with pytest.raises(httpcore.ReadError):
            await stream.read(10)
        with pytest.raises(httpcore.WriteError):
            await stream.write(b"late")


async def test_a_read_has_a_deadline_where_one_is_given() -> None:
    async with connected(stay) as stream:
        with pytest.raises(httpcore.ReadTimeout):
            await stream.read(10, timeout=0.05)


async def test_addresses_are_told() -> None:
    async with connected(stay) as stream:
        assert stream.get_extra_info("client_addr")[0] == "127.0.0.1"
        assert stream.get_extra_info("server_addr")[0] == "127.0.0.1"
        assert not stream.get_extra_info("is_readable")


async def test_a_port_where_nobody_listens_is_an_error_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(httpcore.ConnectError):
            await SocketBackend().connect_tcp("127.0.0.1", taken.getsockname()[1], timeout=5.0)


async def test_connecting_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
    with pytest.raises(httpcore.ConnectTimeout):
        await SocketBackend().connect_tcp("reef.example", 80, timeout=0.05)
    await SocketBackend().sleep(0)


@pytest.fixture
def vouched(tmp_path: Path) -> BothSides:
    """Both sides of TLS under one certificate: the server's, and a client's that trusts it."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    made = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", *subject]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    return server, ssl.create_default_context(cafile=certificate)


async def test_a_trusted_certificate_makes_an_encrypted_connection(
    vouched: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(4))
        writer.close()

    server, client = vouched
    async with connected(echo, server) as stream:
        secured = await stream.start_tls(client, "localhost", timeout=5.0)
        await secured.write(b"reef")
        assert await read_all(secured) == b"reef"
        assert isinstance(secured.get_extra_info("ssl_object"), ssl.SSLObject)


async def test_a_handshake_that_fails_or_never_ends_is_told(vouched: BothSides) -> None:
    server, client = vouched
    async with connected(stay) as stream:
        with pytest.raises(httpcore.ConnectTimeout):
            await stream.start_tls(client, "localhost", timeout=0.05)
    async with connected(hang_up) as stream:
        with pytest.raises(httpcore.ConnectError):
            await stream.start_tls(client, "localhost", timeout=5.0)
    async with connected(stay, server) as stream:
        with pytest.raises(httpcore.ConnectError):
            await stream.start_tls(client, "elsewhere", timeout=5.0)


async def test_a_handshake_that_is_cancelled_closes_its_connection(
    vouched: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    gone = asyncio.Event()

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        gone.set()
        writer.close()

    async with connected(watch) as stream:
        task = asyncio.create_task(stream.start_tls(vouched[1], "localhost"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(5):
            await gone.wait()
