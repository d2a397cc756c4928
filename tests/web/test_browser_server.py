"""The browser server: access, page, cockpit processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from tests.waiting import until
from zoea.mcp_server import http_transport
from zoea.model.errors import OwnerError
from zoea.process.connection_limit import SMALLEST
from zoea.web import browser_cockpit, browser_server, gateway, metrics_server
from zoea.web.browser_server import ASSETS, BrowserServer

FAKE = (sys.executable, "-I", "-S", str(Path(__file__).parents[1] / "fakes" / "browser_cockpit.py"))
WITHIN_S = 20.0
UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: em9lYXpvZWF6b2Vhem9lYQ==\r\n"
)


@pytest.fixture
async def server() -> AsyncIterator[BrowserServer]:
    async with BrowserServer(FAKE) as opened:
        yield opened


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def base_url(server: BrowserServer) -> str:
    """The server's URL without the token."""
    return server.address.removesuffix(f"{server.token}/")


def origin(server: BrowserServer) -> str:
    return base_url(server).rstrip("/")


async def connect(
    server: BrowserServer, request: str = "", upgrade: str = UPGRADE
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection that sends bytes as they are. By default it becomes a cockpit's."""
    host = origin(server).removeprefix("http://")
    reader, writer = await asyncio.open_connection(*host.split(":"), limit=4_096)
    line = request or f"GET /{server.token}/ws"
    writer.write(f"{line} HTTP/1.1\r\nHost: {host}\r\n{upgrade}\r\n".encode())
    return reader, writer


def frame(payload: bytes, opcode: int = 1) -> bytes:
    """A short frame whose mask changes nothing."""
    return bytes([0x80 | opcode, 0x80 | len(payload), 0, 0, 0, 0]) + payload


async def receive_text(socket: aiohttp.ClientWebSocketResponse) -> str:
    return (await socket.receive_bytes(timeout=WITHIN_S)).decode()


async def receive_pid(socket: aiohttp.ClientWebSocketResponse) -> int:
    return int((await receive_text(socket)).split()[0])


class TestAccess:
    @pytest.mark.parametrize("path", ["", "ws", "page.js", "guess", "guess/", "guess/ws", "guess/page.js"])
    async def test_a_request_without_the_token_gets_401(
        self, server: BrowserServer, client: aiohttp.ClientSession, path: str
    ) -> None:
        async with client.get(base_url(server) + path) as response:
            assert response.status == 401
            assert server.token not in await response.text()

    async def test_a_websocket_without_the_token_is_refused(
        self, server: BrowserServer, client: aiohttp.ClientSession
    ) -> None:
        for path in ("ws", "guess/ws"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await client.ws_connect(base_url(server) + path, origin=origin(server))
            assert refused.value.status == 401
        assert not server._cockpits

    async def test_the_token_is_compared_in_constant_time(
        self, server: BrowserServer, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        compared: list[tuple[bytes, bytes]] = []

        def compare(given: bytes, wanted: bytes) -> bool:
            compared.append((given, wanted))
            return False

        monkeypatch.setattr("zoea.web.browser_server.secrets.compare_digest", compare)
        async with client.get(server.address) as response:
            assert response.status == 401
        assert compared == [(server.token.encode(), server.token.encode())]

    async def test_every_server_has_its_own_long_token(self) -> None:
        tokens = {BrowserServer(FAKE).token for _ in range(20)}
        assert len(tokens) == 20
        assert min(map(len, tokens)) >= 43

    @pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "10.0.0.1", "a@127.0.0.1", "127.0.0.1;x", ""])
    async def test_a_foreign_host_name_gets_403(
        self, server: BrowserServer, client: aiohttp.ClientSession, host: str
    ) -> None:
        for path in ("", "ws"):
            async with client.get(server.address + path, headers={"Host": host}) as response:
                assert response.status == 403

    @pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
    async def test_a_head_that_is_not_there_in_time_closes_the_connection(
        self, monkeypatch: pytest.MonkeyPatch, sent: bytes
    ) -> None:
        monkeypatch.setattr(browser_server, "HEAD_S", 0.05)
        async with BrowserServer(FAKE) as server:
            reader, writer = await asyncio.open_connection(*origin(server).removeprefix("http://").split(":"))
            writer.write(sent)
            async with asyncio.timeout(WITHIN_S):
                assert await reader.read() == b""
            writer.close()

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({"X-Long": "x" * 8_000}, 200),
            ({"X-Long": "x" * 8_200}, 400),
            ({f"X-{number}": "x" for number in range(100)}, 200),
            ({f"X-{number}": "x" for number in range(200)}, 400),
        ],
    )
    async def test_a_head_of_long_or_many_lines_gets_400(
        self, server: BrowserServer, client: aiohttp.ClientSession, headers: dict[str, str], status: int
    ) -> None:
        async with client.get(server.address, headers=headers) as response:
            assert response.status == status

    async def test_a_loopback_host_name_is_accepted_with_any_port(
        self, server: BrowserServer, client: aiohttp.ClientSession
    ) -> None:
        for host in ("localhost:9000", "127.0.0.1:9000", "[::1]:9000", "LOCALHOST"):
            async with client.get(server.address, headers={"Host": host}) as response:
                assert response.status == 200

    @pytest.mark.parametrize("foreign", ["http://evil.example", "null", "http://localhost:3000", "http://[", "file://"])
    async def test_a_request_from_another_origin_gets_403(
        self, server: BrowserServer, client: aiohttp.ClientSession, foreign: str
    ) -> None:
        async with client.get(server.address, headers={"Origin": foreign}) as response:
            assert response.status == 403
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect(f"{server.address}ws", origin=foreign)
        assert refused.value.status == 403
        assert not server._cockpits

    async def test_a_server_on_all_addresses_accepts_ip_addresses_and_refuses_names(
        self, client: aiohttp.ClientSession
    ) -> None:
        async with BrowserServer(FAKE, host="0.0.0.0") as everywhere:
            assert everywhere.address.startswith("http://127.0.0.1:")
            assert not everywhere.is_loopback
            for host, status in (("10.0.0.1", 200), ("evil.example", 403)):
                async with client.get(everywhere.address, headers={"Host": host}) as response:
                    assert response.status == status

    async def test_a_request_without_a_path_gets_401(self, server: BrowserServer) -> None:
        for line in ("OPTIONS *", "CONNECT zoea:1"):
            reader, writer = await connect(server, line, upgrade="")
            async with asyncio.timeout(WITHIN_S):
                assert (await reader.readline()).split()[1] == b"401"
            writer.close()

    async def test_a_request_that_is_no_http_is_logged_without_its_token(
        self, server: BrowserServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        reader, writer = await connect(server, f"GET /{server.token}/ws?width=٣", upgrade="")
        async with asyncio.timeout(WITHIN_S):
            assert (await reader.readline()).split()[1] == b"400"
        writer.close()
        assert "a request was refused, because it is no HTTP: " in caplog.text
        assert server.token not in caplog.text

    async def test_a_handshake_that_is_no_websocket_s_is_refused_and_takes_no_place(
        self, server: BrowserServer
    ) -> None:
        for upgrade in ("", UPGRADE.replace("13", "99"), UPGRADE.replace("em9", "x")):
            reader, writer = await connect(server, upgrade=upgrade)
            async with asyncio.timeout(WITHIN_S):
                assert (await reader.readline()).split()[1] == b"400"
            writer.close()
        assert not server._cockpits

    async def test_connections_with_the_token_that_request_nothing_more_keep_no_other_out(
        self, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(browser_server, "MAX_CONNECTIONS", SMALLEST)
        async with BrowserServer(FAKE) as server:
            writers = []
            for _ in range(2 * SMALLEST):
                reader, writer = await connect(server, f"GET /{server.token}/page.css", upgrade="")
                assert b"200" in await reader.readline()
                writer.write(b"GET / HTTP/1.1\r\nX: ")
                writers.append(writer)
            async with client.ws_connect(f"{server.address}ws") as socket:
                await receive_pid(socket)
            for writer in writers:
                writer.close()

    async def test_a_port_in_use_is_reported(self, server: BrowserServer) -> None:
        port = int(base_url(server).rstrip("/").rpartition(":")[2])
        with pytest.raises(OwnerError, match=f"port {port}") as refused:
            await BrowserServer(FAKE, port=port).open()
        assert "--port 0" in refused.value.hint

    async def test_a_host_that_is_not_this_machine_is_reported_with_the_option_to_change(self) -> None:
        with pytest.raises(OwnerError, match=r"192\.0\.2\.1") as refused:
            await BrowserServer(FAKE, host="192.0.2.1").open()
        assert "--host" in refused.value.hint

    def test_an_ipv6_address_is_written_in_brackets(self) -> None:
        assert BrowserServer(FAKE, host="::1", port=80).address.startswith("http://[::1]:80/")
        assert BrowserServer(FAKE, host="::1").is_loopback
        assert BrowserServer(FAKE, host="localhost").is_loopback
        assert not BrowserServer(FAKE, host="zoea.example").is_loopback


class TestPage:
    async def test_the_page_links_only_files_of_this_server(
        self, server: BrowserServer, client: aiohttp.ClientSession
    ) -> None:
        texts: dict[str, str] = {}
        async with client.get(server.address) as response:
            assert response.status == 200
            texts["page"] = await response.text()
            policy = response.headers["Content-Security-Policy"]
            assert response.headers["Referrer-Policy"] == "no-referrer"
            assert response.headers["Cache-Control"] == "no-store"
        named = re.findall(r'(?:src|href)="([^"]+)"', texts["page"])
        files = {name.removeprefix(f"/{server.token}/") for name in named} - {"data:,"}
        files |= set(re.findall(r'url\("([^"]+)"\)', ASSETS["page.css"][0].read_text()))
        assert files == set(ASSETS)
        for name in files:
            async with client.get(server.address + name) as response:
                assert response.status == 200
                assert response.content_type == ASSETS[name][1]
                if not name.endswith(".ttf"):
                    texts[name] = await response.text()
        for name, text in texts.items():
            without_comments = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL) if name.endswith(".css") else text
            assert not re.search(r"""(https?:|wss?:|url\(["']?)//|["'=]//\w""", without_comments), name
        assert "default-src 'none'" in policy
        assert "'unsafe-eval'" not in policy
        assert set(re.findall(r"\w+://([^ ;]+)", policy)) == {base_url(server).split("/")[2]}

    async def test_other_paths_get_404(self, server: BrowserServer, client: aiohttp.ClientSession) -> None:
        for path in ("web.py", "..%2Fweb.py", "images/background.png", "index.html"):
            async with client.get(server.address + path) as response:
                assert response.status == 404


class TestCockpits:
    async def test_keys_and_sizes_reach_the_cockpit_and_invalid_packets_are_ignored(
        self, server: BrowserServer, client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with client.ws_connect(f"{server.address}ws?width=9999&height=0") as socket:
            assert (await receive_text(socket)).endswith(" 1000x1")
        async with client.ws_connect(f"{server.address}ws?width=133&height=44", origin=origin(server)) as socket:
            assert (await receive_text(socket)).endswith(" 133x44")
            for nonsense in ("", "{", "[]", '["stdin"]', '["stdin", 1]', '["resize", {"width": "x"}]', "[" * 10_000):
                await socket.send_str(nonsense)
            size: object
            for size in (1.5, "80", None, [], {}, float("inf"), float("nan")):
                await socket.send_json(["resize", {"width": size, "height": size}])
            await socket.send_bytes(b"bytes")
            await socket.send_json(["stdin", ""])
            await socket.send_json(["stdin", "⬡\ud800"])
            assert await receive_text(socket) == "D⬡?"
            await socket.send_json(["resize", {"width": 90_000, "height": -1}])
            assert json.loads((await receive_text(socket))[1:]) == {"type": "resize", "width": 1000, "height": 1}
            await socket.send_json(["resize", {"width": 10**30, "height": True}])
            assert json.loads((await receive_text(socket))[1:]) == {"type": "resize", "width": 1000, "height": 1}
            await socket.send_json(["stdin", "x" * 100_000])
            assert await receive_text(socket) == "D" + "x" * 100_000
            for word, meta in (("focus", "focus"), ("blur", "blur")):
                await socket.send_json([word])
                assert json.loads((await receive_text(socket))[1:]) == {"type": meta}
            await socket.send_json(["ping", "7"])
            assert await socket.receive_json(timeout=WITHIN_S) == ["pong", "7"]
        for reason in ("it is no JSON", "the page sends none of this form", "the page sends no bytes"):
            assert f"a browser's message was ignored, because {reason}" in caplog.text

    @pytest.mark.parametrize("opcode", [1, 9, 10], ids=["texts", "pings", "pongs"])
    async def test_messages_without_end_leave_the_event_loop_to_others(
        self, server: BrowserServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, opcode: int
    ) -> None:
        monkeypatch.setattr(browser_server, "PACKETS_PER_S", 50)
        rounds, read_in = 0, Counter[int]()
        real = web.WebSocketResponse.receive

        async def receive(browser: web.WebSocketResponse) -> object:
            read_in[rounds] += 1
            return await real(browser)

        monkeypatch.setattr(web.WebSocketResponse, "receive", receive)
        reader, writer = await connect(server)
        await reader.readuntil(b" 80x24")
        writer.write(frame(b"", opcode) * 2_000)

        def has_read_a_burst() -> bool:
            nonlocal rounds
            rounds += 1
            return read_in.total() > 60

        await until(has_read_a_burst)
        assert max(read_in.values()) <= 55
        assert "sends more than 50 messages a second" in caplog.text
        writer.close()

    @pytest.mark.parametrize(
        ("sent", "reason"),
        [
            (frame(b"\xff\xfe"), "Invalid UTF-8"),
            (frame(b"x", 5), "opcode"),
            (b"\x81\xff" + (5 << 20).to_bytes(8, "big") + b"mask", "exceeds limit"),
        ],
        ids=["bytes that are no text", "unknown opcode", "too long"],
    )
    async def test_a_connection_that_breaks_the_protocol_is_closed_with_the_reason(
        self, server: BrowserServer, caplog: pytest.LogCaptureFixture, sent: bytes, reason: str
    ) -> None:
        reader, writer = await connect(server)
        writer.write(sent)
        async with asyncio.timeout(WITHIN_S):
            await reader.read()
        await until(lambda: not server._cockpits)
        writer.close()
        assert re.search(f"a browser's connection was closed: .*{reason}", caplog.text)

    async def test_a_browser_that_reads_nothing_gives_its_place_and_its_connection_back(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(browser_server, "HEARTBEAT_S", 0.1)
        monkeypatch.setattr(browser_cockpit, "END_S", 0.1)
        async with BrowserServer((*FAKE, "endless")) as server:
            _reader, writer = await connect(server)
            await until(lambda: len(server._cockpits) == 1)
            await until(lambda: not server._cockpits and not server._limit._open)
            writer.close()

    @pytest.mark.parametrize(
        ("behaviour", "reason"), [("endless", "it read too little"), ("stuck", "took too little input")]
    )
    async def test_who_takes_nothing_in_time_is_given_up_although_the_browser_writes_on(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, behaviour: str, reason: str
    ) -> None:
        for module, name in ((browser_cockpit, "STALLED_S"), (browser_cockpit, "END_S")):
            monkeypatch.setattr(module, name, 0.2)
        async with BrowserServer((*FAKE, behaviour)) as server:
            _reader, writer = await connect(server)
            await until(lambda: len(server._cockpits) == 1)
            writer.write(frame(json.dumps(["stdin", "x" * 100]).encode() if behaviour == "stuck" else b"") * 5_000)
            await until(lambda: not server._cockpits and not server._limit._open)
            writer.close()
        assert reason in caplog.text

    async def test_of_browsers_that_come_together_none_is_above_the_number(
        self, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def start(*_: object) -> None:
            """Start no process."""

        monkeypatch.setattr(browser_cockpit.BrowserCockpit, "start", start)
        async with BrowserServer((*FAKE, "silent")) as server:
            address, most = f"{server.address}ws", browser_server.MAX_COCKPITS
            opened = [await client.ws_connect(address) for _ in range(most - 2)]
            together = await asyncio.gather(*(client.ws_connect(address) for _ in range(8)), return_exceptions=True)
            refused = [one.status for one in together if isinstance(one, aiohttp.WSServerHandshakeError)]
            opened += [one for one in together if isinstance(one, aiohttp.ClientWebSocketResponse)]
            assert (refused, len(opened), len(server._cockpits)) == ([503] * 6, 32, 32)
            for browser in opened:
                await browser.close()

    async def test_few_cockpits_start_at_once_and_a_browser_that_left_starts_none(
        self, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(browser_cockpit, "END_S", 0.1)
        started: list[browser_cockpit.BrowserCockpit] = []
        real = browser_cockpit.BrowserCockpit.start

        async def start(cockpit: browser_cockpit.BrowserCockpit, width: int, height: int) -> None:
            started.append(cockpit)
            await real(cockpit, width, height)

        monkeypatch.setattr(browser_cockpit.BrowserCockpit, "start", start)
        async with BrowserServer((*FAKE, "silent")) as server:
            browsers = [await client.ws_connect(f"{server.address}ws") for _ in range(browser_server.STARTS + 2)]
            await until(lambda: len(started) == browser_server.STARTS)
            browsers[-1]._response.close()
            await until(lambda: len(server._limit._open) == len(browsers) - 1)
            monkeypatch.setattr(browser_cockpit, "START_S", 0.1)
            for cockpit in started[:]:
                cockpit._has_started.set()
            await until(lambda: len(server._cockpits) == len(browsers) - 1)
            assert len(started) == browser_server.STARTS + 1
            for browser in browsers:
                await browser.close()

    async def test_a_cockpit_that_is_killed_closes_its_websocket_and_leaves_the_others(
        self, server: BrowserServer, client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with client.ws_connect(f"{server.address}ws") as one, client.ws_connect(f"{server.address}ws") as other:
            os.kill(await receive_pid(one), signal.SIGKILL)
            await receive_pid(other)
            assert (await one.receive(timeout=WITHIN_S)).type is aiohttp.WSMsgType.CLOSE
            await other.send_json(["stdin", "x"])
            assert await receive_text(other) == "Dx"
        await until(lambda: not server._cockpits)
        assert "ended by itself, with the exit code -9" in caplog.text

    async def test_a_cockpit_that_cannot_be_started_is_reported(
        self, client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with BrowserServer(("/no/such/program",)) as server:
            async with client.ws_connect(f"{server.address}ws") as socket:
                assert (await socket.receive(timeout=WITHIN_S)).type in (
                    aiohttp.WSMsgType.CLOSE,
                    aiohttp.WSMsgType.CLOSED,
                )
            await until(lambda: not server._cockpits)
        assert "could not be started: " in caplog.text

    @pytest.mark.parametrize(
        "text",
        ["[" * 5_000, "[" + "1," * 5_000 + "1]", '["stdin", "' + "x" * 5_000 + '", 1]', '["stdin", "' + "x" * 5_000],
    )
    def test_a_long_message_is_parsed_as_a_text_alone(self, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("zoea.web.browser_cockpit.json.loads", None)
        with pytest.raises(ValueError, match=r"too long|more than a text|Unterminated"):
            browser_cockpit.read_packet(text)

    async def test_each_browser_has_its_own_process_which_ends_with_it(
        self, server: BrowserServer, client: aiohttp.ClientSession
    ) -> None:
        async with client.ws_connect(f"{server.address}ws?width=no") as one:
            first = await receive_pid(one)
            async with client.ws_connect(f"{server.address}ws") as other:
                second = await receive_pid(other)
                assert len(server._cockpits) == 2
            await until(lambda: not is_alive(second) and len(server._cockpits) == 1)
            assert is_alive(first)
            assert first != second
        await until(lambda: not is_alive(first) and not server._cockpits)

    @pytest.mark.parametrize("behaviour", ["sudden", "mute"])
    async def test_a_cockpit_that_ends_closes_its_websocket(
        self, client: aiohttp.ClientSession, behaviour: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with BrowserServer((*FAKE, behaviour)) as server, client.ws_connect(f"{server.address}ws") as socket:
            async with asyncio.timeout(WITHIN_S):
                async for message in socket:
                    assert message.type is aiohttp.WSMsgType.BINARY
            await until(lambda: not server._cockpits)
        assert (r"wrote: No running swarm: \u001b[31mnobody answers" in caplog.text) == (behaviour == "mute")

    async def test_a_cockpit_that_does_not_end_is_killed(
        self, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(browser_cockpit, "END_S", 0.05)
        async with BrowserServer((*FAKE, "deaf")) as server:
            async with client.ws_connect(f"{server.address}ws") as socket:
                pid = await receive_pid(socket)
            await until(lambda: not is_alive(pid) and not server._cockpits)

    async def test_a_cockpit_that_writes_after_its_browser_left_ends_by_itself(
        self, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        killed: list[object] = []
        monkeypatch.setattr(browser_cockpit, "END_S", WITHIN_S)
        monkeypatch.setattr(browser_cockpit, "kill_group", killed.append)
        async with BrowserServer((*FAKE, "wordy")) as server:
            async with client.ws_connect(f"{server.address}ws") as socket:
                pid = await receive_pid(socket)
            await until(lambda: not is_alive(pid) and not server._cockpits)
        assert not killed

    async def test_closing_the_server_ends_all_cockpits(self, client: aiohttp.ClientSession) -> None:
        server = BrowserServer(FAKE)
        await server.open()
        async with client.ws_connect(f"{server.address}ws") as one, client.ws_connect(f"{server.address}ws") as other:
            pids = [await receive_pid(one), await receive_pid(other)]
            await server.close()
            assert not any(map(is_alive, pids))
            assert (await one.receive(timeout=WITHIN_S)).type is aiohttp.WSMsgType.CLOSE
        await server.close()
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.get(server.address)

    async def test_the_number_of_cockpits_is_limited(
        self,
        server: BrowserServer,
        client: aiohttp.ClientSession,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(browser_server, "MAX_COCKPITS", 1)
        async with client.ws_connect(f"{server.address}ws") as socket:
            await receive_pid(socket)
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await client.ws_connect(f"{server.address}ws")
            assert refused.value.status == 503
            assert "a browser was refused, because 1 cockpits are open" in caplog.text


def test_the_limits_are_those_that_are_promised() -> None:
    """The other tests set smaller ones."""
    promised = " ".join((Path(__file__).parents[2] / "SECURITY.md").read_text("utf-8").split())
    assert {each.HEAD_S for each in (browser_server, http_transport, metrics_server, gateway)} == {10}
    assert f"head has {browser_server.HEAD_S:.0f} seconds" in promised
    assert f"the MCP server takes {http_transport.MAX_HEAD // 1024} kB of it" in promised
    assert browser_server.STARTS == 2
    assert f"At most {browser_server.MAX_COCKPITS} cockpits are open, and two start at once" in promised
