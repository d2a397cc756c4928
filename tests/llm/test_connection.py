"""Connections of our own under httpx: whole under pressure, honest about what broke."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

from zoea.llm.transport import connection as under_test
from zoea.llm.transport.connection import HIGH_WATER, KEEP_ALIVE_S, Connection, connect, head_of

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def connected(handler: Handler, *, secured: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server with this handler; gives its address. The handlers have ended when the context does."""
    handlers: list[asyncio.Task[None]] = []

    async def whole(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.append(task)
        with suppress(ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            await handler(reader, writer)
        with suppress(ConnectionError, ssl.SSLError):
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(whole, "127.0.0.1", 0, ssl=secured)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"https://localhost:{port}/" if secured else f"http://127.0.0.1:{port}/"
    finally:
        await asyncio.wait_for(asyncio.gather(*handlers), 10.0)
        server.close()
        await server.wait_closed()


def request(url: str, content: bytes = b"") -> bytes:
    return head_of("POST", httpx.URL(url), httpx.Headers()) + b"content-length: %d\r\n\r\n" % len(content) + content


@asynccontextmanager
async def asking(url: str, content: bytes = b"", context: ssl.SSLContext | None = None) -> AsyncIterator[Connection]:
    """A connection whose first answer has begun."""
    connection = await connect(httpx.URL(url), context, 10.0)
    try:
        async with asyncio.timeout(10):
            await connection.ask(request(url, content))
        yield connection
    finally:
        connection.abort()


def saying(*pieces: bytes, stays: bool = True) -> Handler:
    """Answers every request with these bytes; then waits for the client to leave, or hangs up."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            for line in head.split(b"\r\n"):
                if line.lower().startswith(b"content-length:"):
                    await reader.readexactly(int(line.split(b":")[1]))
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            if not stays:
                return

    return handler


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - what is waited for is said by no event
            await asyncio.sleep(0)


async def read_all(connection: Connection) -> bytes:
    parts = []
    async with asyncio.timeout(10):
        while data := await connection.read():
            parts.append(data)
    return b"".join(parts)


async def test_chunks_that_arrived_together_are_read_at_once_and_the_connection_serves_again() -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
    async with connected(saying(answer)) as url, asking(url) as connection:
        assert (connection.status, connection.headers) == (200, [(b"Transfer-Encoding", b"chunked")])
        assert await read_all(connection) == b"onetwo"
        assert connection.is_usable
        await connection.ask(request(url))
        assert await read_all(connection) == b"onetwo"


async def test_what_nobody_read_of_one_answer_is_not_in_the_next() -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nold"
    async with connected(saying(answer)) as url, asking(url) as connection:
        await until(lambda: connection.is_whole)
        await connection.ask(request(url))
        assert await read_all(connection) == b"old"


async def test_a_body_without_a_length_ends_with_its_connection() -> None:
    async with connected(saying(b"HTTP/1.1 200 OK\r\n\r\n", b"all", stays=False)) as url, asking(url) as connection:
        assert await read_all(connection) == b"all"
        assert not connection.is_usable


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n"],
)
async def test_an_answer_that_ends_too_early_is_an_error(answer: bytes) -> None:
    async with connected(saying(answer + b"one", stays=False)) as url, asking(url) as connection:
        assert await connection.read() == b"one"
        with pytest.raises(httpx.RemoteProtocolError, match="before its answer was whole"):
            await connection.read()


async def test_interim_answers_are_passed_over() -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nlink: </style>\r\n\r\n"
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    async with connected(saying(interim, answer)) as url, asking(url) as connection:
        assert (connection.status, connection.headers) == (200, [(b"content-length", b"2")])
        assert await read_all(connection) == b"ok"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n", "another protocol"),
    ],
)
async def test_what_is_no_answer_is_told(answer: bytes, said: str) -> None:
    async with connected(saying(answer)) as url:
        with pytest.raises(httpx.RemoteProtocolError, match=said):
            async with asking(url):
                raise AssertionError("an answer was read out of it")


async def test_a_second_answer_to_one_question_ends_the_connection() -> None:
    one = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none"
    async with connected(saying(one + one)) as url, asking(url) as connection:
        assert await read_all(connection) == b"one"
        assert not connection.is_usable


async def test_a_word_nobody_asked_for_ends_the_connection() -> None:
    one = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none"
    told = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(one)
        await told.wait()
        writer.write(one)
        await reader.read()

    async with connected(handler) as url, asking(url) as connection:
        assert await read_all(connection) == b"one"
        told.set()
        await until(lambda: not connection.is_usable)


async def test_a_connection_that_rested_too_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    async with connected(saying(answer)) as url, asking(url) as connection:
        assert await read_all(connection) == b""
        assert connection.is_usable
        monkeypatch.setattr(under_test, "KEEP_ALIVE_S", 0.0)
        assert KEEP_ALIVE_S > 0
        assert not connection.is_usable


async def test_more_than_may_wait_arrives_whole_and_slows_its_server_down_meanwhile() -> None:
    sent = bytes(range(256)) * (HIGH_WATER // 8)
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(sent)
    async with connected(saying(head, sent)) as url, asking(url) as connection:
        await until(lambda: connection.received > HIGH_WATER)
        for _ in range(50):
            await asyncio.sleep(0)
        assert connection.received < len(sent)
        assert not connection.is_usable
        assert await read_all(connection) == sent


async def test_a_large_request_arrives_whole() -> None:
    sent = b"y" * (2 * 1024 * 1024)
    got = asyncio.get_running_loop().create_future()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        got.set_result(await reader.readexactly(len(sent)))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with connected(handler) as url, asking(url, sent) as connection:
        assert (connection.status, await got == sent, await read_all(connection)) == (204, True, b"")


async def test_a_reset_is_an_error_with_its_cause() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    async with connected(handler) as url:
        with pytest.raises(httpx.ReadError) as caught:
            async with asking(url):
                raise AssertionError("an answer was read out of it")
        assert isinstance(caught.value.__cause__, ConnectionError)


def test_no_header_breaks_out_of_its_line() -> None:
    with pytest.raises(httpx.LocalProtocolError, match="authorization"):
        head_of("GET", httpx.URL("http://reef.example/"), httpx.Headers([(b"authorization", b"key\r\nx-other: yes")]))


async def test_a_port_where_nobody_listens_is_an_error_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(httpx.ConnectError):
            await connect(httpx.URL(f"http://127.0.0.1:{taken.getsockname()[1]}/"), None, 10.0)


async def test_connecting_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
    with pytest.raises(httpx.ConnectTimeout):
        await connect(httpx.URL("http://reef.example/"), None, 0.05)


@pytest.fixture(scope="module")
def vouched(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Both sides of TLS under one certificate: the server's, and a client's that trusts it."""
    folder: Path = tmp_path_factory.mktemp("vouched")
    key, certificate = folder / "key.pem", folder / "cert.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    made = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", *subject]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    return server, ssl.create_default_context(cafile=certificate)


async def test_a_trusted_certificate_makes_an_encrypted_connection(
    vouched: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    server, client = vouched
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nreef"
    async with connected(saying(answer), secured=server) as url, asking(url, context=client) as connection:
        assert await read_all(connection) == b"reef"


async def test_a_handshake_that_fails_or_never_ends_is_told(vouched: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    server, client = vouched

    async def stay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with connected(stay) as url:
        with pytest.raises(httpx.ConnectTimeout):
            await connect(httpx.URL(url.replace("http://127.0.0.1", "https://localhost")), client, 0.05)
    async with connected(hang_up) as url:
        with pytest.raises(httpx.ConnectError):
            await connect(httpx.URL(url.replace("http://127.0.0.1", "https://localhost")), client, 10.0)
    async with connected(stay, secured=server) as url:
        with pytest.raises(httpx.ConnectError):  # the certificate is of another name
            await connect(httpx.URL(url.replace("localhost", "127.0.0.1")), client, 10.0)
