"""The HTTP client: proxies, loopback, certificates, and requests that are sent again."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from tests.case_tables import walk_cases
from tests.fakes.llm_clock import LoopClock
from tests.fakes.openai_server import Fail, OpenAIServer, Say
from tests.fakes.wire_server import Outgoing, Received
from tests.llm.sample_requests import answer, provider
from zoea.llm.provider_config import is_loopback
from zoea.llm.transport.cached_json import fetch
from zoea.llm.transport.http_client import HttpClient, proxy_for
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError

ROOT = Path(__file__).parents[2]


@walk_cases(
    ("url", "local"),
    [
        ("http://127.0.0.1:8080/v1", True),
        ("http://localhost:11434", True),
        ("http://[::1]:80", True),
        ("http://reef.localhost", True),
        ("https://api.openai.com/v1", False),
        ("", False),
    ],
)
def test_loopback_is_recognised(url: str, local: bool) -> None:
    assert is_loopback(url) is local


def test_the_proxy_of_the_environment_is_not_used_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "proxy.example:3128")
    monkeypatch.setenv("no_proxy", "inner.example")
    assert proxy_for("https://api.openai.com/v1") == "http://proxy.example:3128"
    assert proxy_for("https://inner.example/v1") is None
    assert proxy_for("http://127.0.0.1:1/v1") is None
    assert proxy_for("http://api.example") is None
    monkeypatch.setenv("all_proxy", "socks5://proxy.example:1080")
    assert proxy_for("http://api.example") == "socks5://proxy.example:1080"


async def test_an_http_address_reads_no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("certificates were read")

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", never)
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", never)
    async with OpenAIServer() as server:
        source = provider("openai", server.base_url)
        assert await source.models()
        await source.close()


def test_the_registry_is_imported_without_the_http_library() -> None:
    code = "import sys, zoea.llm.registry; print([m for m in ('httpx', 'json_repair') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


async def test_a_document_that_is_not_json_is_an_error() -> None:
    class Page(OpenAIServer):
        async def handle(self, request: Received, out: Outgoing) -> None:
            page = Fail.html(200)
            out.whole(page.status, page.body.encode(), page.headers)

    async with Page() as server:
        http = HttpClient(server.base_url, name="reefnet")
        with pytest.raises(ProviderError) as caught:
            await fetch(http, "GET", "/models", provider="reefnet", clock=LoopClock())
        assert caught.value.kind is ErrorClass.BAD_REQUEST
        assert "a web page" in caught.value.what
        await http.close()


async def test_unrequested_compression_is_decoded() -> None:
    class Zipped(OpenAIServer):
        async def handle(self, request: Received, out: Outgoing) -> None:
            out.whole(200, gzip.compress(b'{"data": [{"id": "x"}]}'), {"content-encoding": "gzip"})

    async with Zipped() as server:
        source = provider("openai", server.base_url)
        assert [one.name for one in await source.models()] == ["x"]
        await source.close()


async def test_a_client_that_was_closed_opens_again_when_it_is_used() -> None:
    async with OpenAIServer() as server:
        source = provider("openai", server.base_url)
        await source.models()
        await source.close()
        assert await source.models()
        await source.close()


async def test_a_request_on_a_connection_that_was_just_closed_is_sent_on_a_new_one() -> None:
    async with OpenAIServer() as server:
        server.answers_per_connection = 1
        source = provider("openai", server.base_url)
        for _ in range(5):
            assert (await answer(source)).text
        assert (len(server.chats), server.connections) == (5, 5)
        await source.close()


async def test_a_request_on_a_new_connection_is_not_sent_again() -> None:
    async with OpenAIServer(Say("so"), Fail(0)) as server:
        source = provider("openai", server.base_url)
        server.answers_per_connection = 0
        with pytest.raises(ProviderError) as caught:
            await answer(source)
        assert (caught.value.kind, server.connections) == (ErrorClass.TRANSIENT, 1)
        assert caught.value.title == "The connection to the provider broke"
        server.answers_per_connection = 1
        await answer(source)
        with pytest.raises(ProviderError):  # the used connection was closed, then the new one
            await answer(source)
        assert server.connections == 3
        await source.close()


async def test_a_request_is_not_sent_again_after_its_answer_began() -> None:
    asked = 0

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        for head in (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", b"HTTP/1.1 200"):
            await reader.readuntil(b"\r\n\r\n")
            asked += 1
            writer.write(head)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(half, "127.0.0.1", 0)
    http = HttpClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", name="reefnet")
    assert (await http.read_document("POST", "/", b""))[2] == b"{}"
    with pytest.raises(ProviderError) as caught:
        await http.read_document("POST", "/", b"")
    assert (caught.value.kind, asked) == (ErrorClass.TRANSIENT, 2)
    await http.close()
    server.close()
    await server.wait_closed()
