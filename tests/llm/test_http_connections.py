"""Connections of the HTTP client: reused, bounded, and closed promptly; each failure is a `ProviderError`."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import struct
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.case_tables import walk_cases
from tests.waiting import until
from zoea.llm.provider_config import Timeouts
from zoea.llm.transport import http_client
from zoea.llm.transport.http_client import HttpClient, HttpReply
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError
from zoea.tools import Toolbox, UpstreamConfig

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class RawServer:
    """A server on loopback that one handler answers for; it counts its connections."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._tasks: list[asyncio.Task[None]] = []
        self.url = ""
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.append(task)
        self.connections += 1
        broken = (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError)
        with suppress(*broken):
            await self._handler(reader, writer)
        with suppress(*broken):
            writer.close()
            await writer.wait_closed()

    async def wait_for_handlers(self) -> None:
        """Wait until every client has gone and its handler has ended; fails after 10 s."""
        await asyncio.wait_for(asyncio.gather(*self._tasks), 10.0)


@asynccontextmanager
async def serving(handler: Handler, *, context: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """Serve until the block ends, which waits for the handlers."""
    raw = RawServer(handler)
    server = await asyncio.start_server(raw.serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    raw.url = f"https://localhost:{port}" if context else f"http://127.0.0.1:{port}"
    try:
        yield raw
    finally:
        await raw.wait_for_handlers()
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def client_of(url: str, timeouts: Timeouts | None = None) -> AsyncIterator[HttpClient]:
    client = HttpClient(url, name="reefnet", timeouts=timeouts or Timeouts(10.0, 10.0, 10.0))
    try:
        yield client
    finally:
        await client.close()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Read one request; return its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    _, has_length, rest = head.partition(b"content-length:")
    return await reader.readexactly(int(rest.split(b"\r\n")[0])) if has_length else b""


def answering(*pieces: bytes, stays: bool = True) -> Handler:
    """Answer every request with these bytes. Then wait for the client to leave, or hang up."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            if not stays:
                return

    return handler


async def read_all(reply: HttpReply) -> bytes:
    try:
        return await reply.read_all(2**30)
    finally:
        await reply.close()


async def post(client: HttpClient, content: bytes = b"{}") -> bytes:
    return await read_all(await client.open("POST", "/", content))


async def let_the_loop_read(rounds: int = 20) -> None:
    """Let the event loop go through some rounds. In them it reads what sockets have received."""
    for _ in range(rounds):
        await asyncio.sleep(0)


async def refused(client: HttpClient) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await post(client)
    return caught.value


async def test_a_connection_whose_answer_was_read_serves_again() -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
    async with serving(answering(answer)) as server, client_of(server.url) as client:
        assert [await post(client) for _ in range(3)] == [b"onetwo"] * 3
        assert server.connections == 1


async def test_an_unread_answer_is_not_part_of_the_next() -> None:
    answers = iter((b"old", b"new"))

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n" + next(answers))

    async with serving(handler) as server, client_of(server.url) as client:
        await (await client.open("POST", "/", b"{}")).close()
        assert await post(client) == b"new"


async def test_a_body_without_a_length_ends_with_its_connection() -> None:
    answer = (b"HTTP/1.1 200 OK\r\n\r\n", b"all")
    async with serving(answering(*answer, stays=False)) as server, client_of(server.url) as client:
        assert [await post(client), await post(client)] == [b"all", b"all"]
        assert server.connections == 2


@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n"],
)
async def test_an_answer_that_ends_too_early_is_an_error(head: bytes) -> None:
    async with serving(answering(head + b"one", stays=False)) as server, client_of(server.url) as client:
        reply = await client.open("GET", "/")
        assert await reply.read() == b"one"
        with pytest.raises(ProviderError, match="before its answer was whole") as caught:
            await reply.read()
        assert caught.value.kind is ErrorClass.TRANSIENT
        await reply.close()


async def test_interim_answers_are_skipped() -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nlink: </style>\r\n\r\n"
    async with serving(answering(interim, OK)) as server, client_of(server.url) as client:
        reply = await client.open("GET", "/")
        assert (reply.status, dict(reply.headers)) == (200, {"content-length": "2"})
        assert await read_all(reply) == b"ok"


async def test_interim_answers_without_end_end_the_connection() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        while True:
            writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
            await writer.drain()

    async with serving(handler) as server, client_of(server.url) as client:
        error = await refused(client)
        assert error.title == "The connection to the provider broke"
        assert error.what.endswith("the server sent over 16 interim answers")


@walk_cases(
    ("answer", "what"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n", "another protocol"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"a" * 10_000 + b"\r\n\r\n", "not HTTP: Got more than 8190 bytes"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 10_000 + b"\r\n", "not HTTP: Too many headers"),
    ],
)
async def test_a_head_that_is_no_answer_is_an_error(answer: bytes, what: str) -> None:
    async with serving(answering(answer)) as server, client_of(server.url) as client:
        error = await refused(client)
        assert error.kind is ErrorClass.TRANSIENT
        assert what in error.what


async def test_trailers_without_end_end_the_answer() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n")
        while True:
            writer.write(b"x: y\r\n" * 100)
            await writer.drain()

    async with serving(handler) as server, client_of(server.url) as client:
        assert (await refused(client)).kind is ErrorClass.TRANSIENT


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_connection_that_carried_an_unasked_answer_is_not_used_again(is_late: bool) -> None:
    told = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK if is_late else OK + OK.replace(b"ok", b"no"))
        if is_late:
            await told.wait()
            writer.write(OK.replace(b"ok", b"no"))
            await writer.drain()
            arrived.set()
        with suppress(asyncio.IncompleteReadError):
            await read_request(reader)
            writer.write(OK)

    arrived = asyncio.Event()
    async with serving(handler) as server, client_of(server.url) as client:
        assert await post(client) == b"ok"
        if is_late:
            told.set()
            await asyncio.wait_for(arrived.wait(), 10.0)
            await let_the_loop_read()
        assert await post(client) == b"ok"
        assert server.connections == 2


async def test_a_connection_that_rested_too_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "KEEP_ALIVE_S", 1e-6)
    async with serving(answering(OK)) as server, client_of(server.url) as client:
        assert [await post(client), await post(client)] == [b"ok", b"ok"]
        assert server.connections == 2


async def test_an_unread_answer_slows_its_server_down_and_arrives_whole() -> None:
    block, blocks = bytes(range(256)) * 256, 512
    written = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (len(block) * blocks))
        for number in range(blocks):
            writer.write(block)
            written = number + 1
            await writer.drain()

    async with serving(handler) as server, client_of(server.url) as client:
        reply = await client.open("GET", "/")
        await let_the_loop_read(2_000)
        assert 0 < written < blocks
        assert await read_all(reply) == block * blocks


@pytest.mark.parametrize("size", [1_000, 3 * 2**20 + 1])
async def test_a_request_of_any_size_arrives_whole(size: int) -> None:
    received: list[bytes] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            received.append(await read_request(reader))
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    sent = b"y" * size
    async with serving(handler) as server, client_of(server.url) as client:
        assert [await post(client, sent), await post(client, sent)] == [b"", b""]
        assert received == [sent, sent]
        assert server.connections == 1


async def test_a_reset_connection_is_a_transient_error() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    async with serving(handler) as server, client_of(server.url) as client:
        error = await refused(client)
        assert (error.kind, error.title) == (ErrorClass.TRANSIENT, "The connection to the provider broke")


async def test_a_header_with_a_line_break_is_refused_without_its_value() -> None:
    client = HttpClient("http://127.0.0.1:1", name="reefnet", headers={"authorization": "key\r\nx-other: yes"})
    error = await refused(client)
    assert error.kind is ErrorClass.BAD_REQUEST
    assert error.what == "the header authorization for reefnet has a line break in its value"


async def test_a_port_without_a_server_is_an_error_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        async with client_of(f"http://127.0.0.1:{taken.getsockname()[1]}") as client:
            error = await refused(client)
            assert error.what == "reefnet could not be reached: nothing listens at its address"


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (socket.gaierror(-2, "Name or service not known"), "the host in its address is not known"),
        (OSError("the cable is out"), "the cable is out"),
    ],
)
async def test_the_error_says_why_a_host_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch, failure: OSError, reason: str
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", fail)
    async with client_of("http://reef.example") as client:
        error = await refused(client)
        assert (error.kind, error.what) == (ErrorClass.TRANSIENT, f"reefnet could not be reached: {reason}")


async def test_connecting_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", never)
    async with client_of("http://reef.example", Timeouts(connect=0.05, first=10.0)) as client:
        assert (await refused(client)).what == "reefnet could not be reached in time"


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_stream_that_is_left_closes_its_connection(is_cancelled: bool) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n")
        assert await reader.read() == b""

    async with serving(handler) as server, client_of(server.url) as client:
        reply = await client.open("POST", "/", b"{}")
        assert await reply.read() == b"ok"
        if is_cancelled:
            reading = asyncio.create_task(reply.read())
            await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
        await reply.close()
        async with asyncio.timeout(1.0):  # long before the client itself is closed
            await server.wait_for_handlers()


async def test_a_cancelled_request_closes_its_connection() -> None:
    has_request = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        has_request.set()
        assert await reader.read() == b""

    async with serving(handler) as server, client_of(server.url) as client:
        opening = asyncio.create_task(client.open("POST", "/", b"{}"))
        await has_request.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        async with asyncio.timeout(1.0):
            await server.wait_for_handlers()


@walk_cases("status", [301, 302, 303, 307, 308])
@walk_cases("method", ["GET", "POST"])
async def test_a_redirect_is_not_followed_and_no_cookie_is_kept(status: int, method: str) -> None:
    heads: list[bytes] = []
    elsewhere: list[bytes] = []

    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        elsewhere.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async with serving(other) as there:

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                head = (
                    f"HTTP/1.1 {status} Moved\r\nlocation: {there.url}/\r\nset-cookie: a=b\r\ncontent-length: 0\r\n\r\n"
                )
                writer.write(head.encode())

        async with serving(handler) as server, client_of(server.url) as client:
            assert [(await client.read_document(method, "/"))[0] for _ in range(2)] == [status, status]
    assert elsewhere == []
    assert len(heads) == 2
    assert not any(b"cookie" in head.lower() for head in heads)


async def test_a_path_is_sent_as_it_is_written() -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split()[1])
        writer.write(OK)

    path = "/model/arn%3Aaws%3Abedrock%2Fone/invoke%7E?key=%2B%40"
    async with serving(answer) as server, client_of(server.url) as client:
        assert (await client.read_document("POST", path, b"{}"))[2] == b"ok"
    assert asked == [path.encode()]


async def test_credentials_in_the_address_are_not_sent() -> None:
    heads: list[bytes] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)

    async with serving(handler) as server:
        client = HttpClient(
            server.url.replace("//", "//me:word@"), name="reefnet", headers={"authorization": "Bearer key"}
        )
        assert (await client.read_document("GET", "/"))[0] == 200
        await client.close()
    assert b"authorization: bearer key\r\n" in heads[0].lower()


async def test_a_proxy_gets_its_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    heads: list[bytes] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)

    async with serving(handler) as server:
        monkeypatch.setenv("http_proxy", server.url.replace("//", "//me:word@"))
        monkeypatch.delenv("no_proxy", raising=False)
        async with client_of("http://reef.example/v1") as client:
            assert (await client.read_document("GET", "/models"))[2] == b"ok"
    assert heads[0].startswith(b"GET http://reef.example/v1/models HTTP/1.1\r\n")
    assert b"proxy-authorization: basic " + base64.b64encode(b"me:word").lower() in heads[0].lower()


async def test_a_proxy_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5://proxy.example:1080")
    async with client_of("http://reef.example") as client:
        error = await refused(client)
        assert (error.kind, error.title) == (ErrorClass.BAD_REQUEST, "The proxy cannot be used")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost with its key, in one file."""
    folder: Path = tmp_path_factory.mktemp("certificate")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", *subject]
    subprocess.run(
        [*command, "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True
    )
    both = folder / "both.pem"
    both.write_bytes((folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes())
    return both


@pytest.fixture
def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def is_trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The client trusts the certificate."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    http_client.trusted_certificates.cache_clear()
    yield
    http_client.trusted_certificates.cache_clear()


@pytest.mark.usefixtures("is_trusted")
async def test_a_trusted_certificate_makes_an_encrypted_connection(server_context: ssl.SSLContext) -> None:
    async with serving(answering(OK), context=server_context) as server, client_of(server.url) as client:
        assert await post(client) == b"ok"


async def test_an_untrusted_certificate_is_for_the_user_to_fix(server_context: ssl.SSLContext) -> None:
    async with serving(answering(OK), context=server_context) as server, client_of(server.url) as client:
        error = await refused(client)
        assert (error.kind, error.title) == (ErrorClass.BAD_REQUEST, "The provider's certificate is not trusted")


@pytest.mark.usefixtures("is_trusted")
async def test_a_certificate_of_another_name_is_not_trusted(server_context: ssl.SSLContext) -> None:
    async with (
        serving(answering(OK), context=server_context) as server,
        client_of(server.url.replace("localhost", "127.0.0.1")) as client,
    ):
        assert (await refused(client)).title == "The provider's certificate is not trusted"


EXPIRED = """
[ca]
default_ca = own
[own]
database = {folder}/index.txt
new_certs_dir = {folder}
rand_serial = yes
default_md = default
policy = any
x509_extensions = names
[any]
commonName = supplied
[names]
subjectAltName = DNS:localhost
"""


@pytest.fixture(scope="module")
def expired(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost that ended years ago, with its key."""
    folder: Path = tmp_path_factory.mktemp("expired")
    (folder / "index.txt").touch()
    (folder / "ca.cnf").write_text(EXPIRED.format(folder=folder))
    request = ["openssl", "req", "-new", "-newkey", "ed25519", "-nodes", "-subj", "/CN=localhost"]
    subprocess.run([*request, "-keyout", folder / "key.pem", "-out", folder / "r.pem"], check=True, capture_output=True)
    files: list[str | Path] = ["-in", folder / "r.pem", "-keyfile", folder / "key.pem", "-out", folder / "cert.pem"]
    dates = ["-startdate", "20200101000000Z", "-enddate", "20200102000000Z"]
    sign: list[str | Path] = ["openssl", "ca", "-batch", "-selfsign", "-notext", "-config", folder / "ca.cnf"]
    subprocess.run([*sign, *files, *dates], check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_bytes((folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes())
    return both


async def reaches_upstream(url: str, logs: Path, *, retries: int) -> str:
    """Open a session with an MCP server; return the error that it ends with. Each retry comes after a minute."""
    config = UpstreamConfig("far", url=url, start_timeout=20.0, retries=retries, backoff=60.0, backoff_max=60.0)
    box = Toolbox((config,), logs=logs)
    box.open()
    try:
        await until(lambda: box.status()[0].state == "down", within=20.0)
        return box.status()[0].last_error or ""
    finally:
        await box.close()


@pytest.mark.parametrize("kind", ["trusted", "self-signed", "expired", "of another name"])
async def test_a_request_leaves_only_where_the_certificate_is_good(
    kind: str, certificate: Path, expired: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Requests of models and of MCP servers alike. The first turn does not wait until a bad one is tried again."""
    used = expired if kind == "expired" else certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(used)
    if kind != "self-signed":
        monkeypatch.setenv("SSL_CERT_FILE", str(used))
    http_client.trusted_certificates.cache_clear()
    requests: list[bytes] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno")
        await writer.drain()

    async with serving(handler, context=context) as server:
        url = server.url.replace("localhost", "127.0.0.1") if kind == "of another name" else server.url
        error = await reaches_upstream(f"{url}/mcp", tmp_path, retries=0 if kind == "trusted" else 3)
        async with client_of(url) as client:
            if kind == "trusted":
                assert await post(client) == b"no"
            else:
                assert (await refused(client)).title == "The provider's certificate is not trusted"
    http_client.trusted_certificates.cache_clear()
    assert {request.split()[1] for request in requests} == ({b"/mcp", b"/"} if kind == "trusted" else set())
    assert ("404" in error) == (kind == "trusted")
    assert ("cannot connect: its certificate is not trusted (" in error) == (kind != "trusted")


@pytest.mark.parametrize("hangs_up", [False, True])
async def test_a_tls_handshake_that_fails_or_never_ends_is_an_error(hangs_up: bool) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not hangs_up:
            await reader.read()

    async with serving(handler) as server:
        url = server.url.replace("http://127.0.0.1", "https://localhost")
        async with client_of(url, Timeouts(connect=10.0 if hangs_up else 0.1, first=10.0)) as client:
            error = await refused(client)
            assert (error.kind, error.title) == (ErrorClass.TRANSIENT, "The provider cannot be reached")
