"""The door for browsers: who may come in, what they are served, and how the cockpits behind it end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from zoea.model.errors import OwnerError
from zoea.web import browser_cockpit, browser_server
from zoea.web.browser_server import ASSETS, BrowserServer

FAKE = (sys.executable, "-I", "-S", str(Path(__file__).parents[1] / "fakes" / "browser_cockpit.py"))
WITHIN_S = 20.0


@pytest.fixture
async def door() -> AsyncIterator[BrowserServer]:
    async with BrowserServer(FAKE) as opened:
        yield opened


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not holds():  # noqa: ASYNC110  a process has no event for its end here
            await asyncio.sleep(0.01)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def outside(door: BrowserServer) -> str:
    """The door's address without its token."""
    return door.address.removesuffix(f"{door.token}/")


def origin(door: BrowserServer) -> str:
    return outside(door).rstrip("/")


async def shown(socket: aiohttp.ClientWebSocketResponse) -> str:
    return (await socket.receive_bytes(timeout=WITHIN_S)).decode()


async def pid_of(socket: aiohttp.ClientWebSocketResponse) -> int:
    return int((await shown(socket)).split()[0])


class TestWhoMayComeIn:
    @pytest.mark.parametrize("path", ["", "ws", "page.js", "guess", "guess/", "guess/ws", "guess/page.js"])
    async def test_nobody_without_the_token(
        self, door: BrowserServer, client: aiohttp.ClientSession, path: str
    ) -> None:
        async with client.get(outside(door) + path) as response:
            assert response.status == 401
            assert door.token not in await response.text()

    async def test_no_websocket_without_the_token(self, door: BrowserServer, client: aiohttp.ClientSession) -> None:
        for path in ("ws", "guess/ws"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await client.ws_connect(outside(door) + path, origin=origin(door))
            assert refused.value.status == 401
        assert door.cockpits == 0

    async def test_the_token_is_compared_in_constant_time(
        self, door: BrowserServer, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        compared: list[tuple[bytes, bytes]] = []

        def compare(given: bytes, wanted: bytes) -> bool:
            compared.append((given, wanted))
            return False

        monkeypatch.setattr("zoea.web.browser_server.secrets.compare_digest", compare)
        async with client.get(door.address) as response:
            assert response.status == 401
        assert compared == [(door.token.encode(), door.token.encode())]

    async def test_every_door_has_a_token_of_its_own_that_nobody_guesses(self) -> None:
        tokens = {BrowserServer(FAKE).token for _ in range(20)}
        assert len(tokens) == 20
        assert min(map(len, tokens)) >= 43

    @pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "10.0.0.1", "a@127.0.0.1", "127.0.0.1;x", ""])
    async def test_no_name_is_answered_to_that_others_can_point_here(
        self, door: BrowserServer, client: aiohttp.ClientSession, host: str
    ) -> None:
        for path in ("", "ws"):
            async with client.get(door.address + path, headers={"Host": host}) as response:
                assert response.status == 403

    async def test_a_tunnel_ends_here_under_any_port(self, door: BrowserServer, client: aiohttp.ClientSession) -> None:
        for host in ("localhost:9000", "127.0.0.1:9000", "[::1]:9000", "LOCALHOST"):
            async with client.get(door.address, headers={"Host": host}) as response:
                assert response.status == 200

    @pytest.mark.parametrize("foreign", ["http://evil.example", "null", "http://localhost:3000", "http://[", "file://"])
    async def test_pages_of_other_sites_get_nothing(
        self, door: BrowserServer, client: aiohttp.ClientSession, foreign: str
    ) -> None:
        async with client.get(door.address, headers={"Origin": foreign}) as response:
            assert response.status == 403
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect(f"{door.address}ws", origin=foreign)
        assert refused.value.status == 403
        assert door.cockpits == 0

    async def test_a_door_for_other_machines_is_known_by_its_addresses_and_no_foreign_name(
        self, client: aiohttp.ClientSession
    ) -> None:
        async with BrowserServer(FAKE, host="0.0.0.0") as everywhere:
            assert everywhere.address.startswith("http://127.0.0.1:")
            assert not everywhere.is_loopback
            for host, status in (("10.0.0.1", 200), ("evil.example", 403)):
                async with client.get(everywhere.address, headers={"Host": host}) as response:
                    assert response.status == status

    async def test_a_port_that_is_taken_is_said(self, door: BrowserServer) -> None:
        port = int(outside(door).rstrip("/").rpartition(":")[2])
        with pytest.raises(OwnerError, match=f"port {port}") as refused:
            await BrowserServer(FAKE, port=port).open()
        assert "--port 0" in refused.value.hint

    def test_an_address_is_written_as_browsers_read_it(self) -> None:
        assert BrowserServer(FAKE, host="::1", port=80).address.startswith("http://[::1]:80/")
        assert BrowserServer(FAKE, host="::1").is_loopback
        assert BrowserServer(FAKE, host="localhost").is_loopback
        assert not BrowserServer(FAKE, host="zoea.example").is_loopback


class TestPage:
    async def test_it_names_no_other_origin_and_all_that_it_names_is_served_here(
        self, door: BrowserServer, client: aiohttp.ClientSession
    ) -> None:
        texts: dict[str, str] = {}
        async with client.get(door.address) as response:
            assert response.status == 200
            texts["page"] = await response.text()
            policy = response.headers["Content-Security-Policy"]
            assert response.headers["Referrer-Policy"] == "no-referrer"
            assert response.headers["Cache-Control"] == "no-store"
        named = re.findall(r'(?:src|href)="([^"]+)"', texts["page"])
        files = {name.removeprefix(f"/{door.token}/") for name in named} - {"data:,"}
        files |= set(re.findall(r'url\("([^"]+)"\)', ASSETS["page.css"][0].read_text()))
        assert files == set(ASSETS)
        for name in files:
            async with client.get(door.address + name) as response:
                assert response.status == 200
                assert response.content_type == ASSETS[name][1]
                if not name.endswith(".ttf"):
                    texts[name] = await response.text()
        for name, text in texts.items():
            without_comments = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL) if name.endswith(".css") else text
            assert not re.search(r"""(https?:|wss?:|url\(["']?)//|["'=]//\w""", without_comments), name
        assert "default-src 'none'" in policy
        assert "'unsafe-eval'" not in policy
        assert set(re.findall(r"\w+://([^ ;]+)", policy)) == {outside(door).split("/")[2]}

    async def test_nothing_but_the_page_s_own_files_is_served(
        self, door: BrowserServer, client: aiohttp.ClientSession
    ) -> None:
        for path in ("web.py", "..%2Fweb.py", "images/background.png", "index.html"):
            async with client.get(door.address + path) as response:
                assert response.status == 404


class TestCockpits:
    async def test_keys_and_sizes_reach_it_and_what_cannot_be_read_is_left_out(
        self, door: BrowserServer, client: aiohttp.ClientSession
    ) -> None:
        async with client.ws_connect(f"{door.address}ws?width=133&height=44", origin=origin(door)) as socket:
            assert (await shown(socket)).endswith(" 133x44")
            for nonsense in ("", "{", "[]", '["stdin"]', '["stdin", 1]', '["resize", {"width": "x"}]', "[" * 10_000):
                await socket.send_str(nonsense)
            await socket.send_bytes(b"bytes")
            await socket.send_json(["stdin", "⬡\ud800"])
            assert await shown(socket) == "D⬡?"
            await socket.send_json(["resize", {"width": 90_000, "height": -1}])
            assert json.loads((await shown(socket))[1:]) == {"type": "resize", "width": 1000, "height": 1}
            for word, meta in (("focus", "focus"), ("blur", "blur")):
                await socket.send_json([word])
                assert json.loads((await shown(socket))[1:]) == {"type": meta}
            await socket.send_json(["ping", "7"])
            assert await socket.receive_json(timeout=WITHIN_S) == ["pong", "7"]

    async def test_each_browser_has_its_own_which_ends_with_it(
        self, door: BrowserServer, client: aiohttp.ClientSession
    ) -> None:
        async with client.ws_connect(f"{door.address}ws?width=no") as one:
            first = await pid_of(one)
            async with client.ws_connect(f"{door.address}ws") as other:
                second = await pid_of(other)
                assert door.cockpits == 2
            await until(lambda: not is_there(second) and door.cockpits == 1)
            assert is_there(first)
            assert first != second
        await until(lambda: not is_there(first) and door.cockpits == 0)

    @pytest.mark.parametrize("behaviour", ["sudden", "mute"])
    async def test_one_that_ends_closes_its_browser_s_connection(
        self, client: aiohttp.ClientSession, behaviour: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with BrowserServer((*FAKE, behaviour)) as door, client.ws_connect(f"{door.address}ws") as socket:
            async with asyncio.timeout(WITHIN_S):
                async for message in socket:
                    assert message.type is aiohttp.WSMsgType.BINARY
            await until(lambda: door.cockpits == 0)
        assert ("said: No running swarm: nobody answers" in caplog.text) == (behaviour == "mute")

    async def test_one_that_does_not_end_is_killed(
        self, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(browser_cockpit, "END_S", 0.05)
        async with BrowserServer((*FAKE, "deaf")) as door:
            async with client.ws_connect(f"{door.address}ws") as socket:
                pid = await pid_of(socket)
            await until(lambda: not is_there(pid) and door.cockpits == 0)

    async def test_one_that_still_draws_when_its_browser_is_gone_comes_to_its_end(
        self, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        killed: list[object] = []
        monkeypatch.setattr(browser_cockpit, "END_S", WITHIN_S)
        monkeypatch.setattr(browser_cockpit, "_kill", killed.append)
        async with BrowserServer((*FAKE, "wordy")) as door:
            async with client.ws_connect(f"{door.address}ws") as socket:
                pid = await pid_of(socket)
            await until(lambda: not is_there(pid) and door.cockpits == 0)
        assert not killed

    async def test_all_end_when_the_door_closes(self, client: aiohttp.ClientSession) -> None:
        door = BrowserServer(FAKE)
        await door.open()
        async with client.ws_connect(f"{door.address}ws") as one, client.ws_connect(f"{door.address}ws") as other:
            pids = [await pid_of(one), await pid_of(other)]
            await door.close()
            assert not any(map(is_there, pids))
            assert (await one.receive(timeout=WITHIN_S)).type is aiohttp.WSMsgType.CLOSE
        await door.close()
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.get(door.address)

    async def test_there_is_an_end_to_how_many(
        self, door: BrowserServer, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(browser_server, "MAX_COCKPITS", 1)
        async with client.ws_connect(f"{door.address}ws") as socket:
            await pid_of(socket)
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await client.ws_connect(f"{door.address}ws")
            assert refused.value.status == 503
