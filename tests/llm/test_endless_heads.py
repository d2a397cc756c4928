"""Heads, trailers and interim answers without end are given up soon, and take no memory."""

from __future__ import annotations

import asyncio

import pytest

from tests.case_tables import walk_cases
from tests.fakes.endless_heads import KINDS, EndlessHeads
from tests.fakes.wire_server import Outgoing, Received, WireServer
from tests.waiting import until
from zoea.llm.provider_config import Timeouts
from zoea.llm.transport.bounded_protocol import MAX_INTERIM, BoundedResponseHandler, BoundExceeded
from zoea.llm.transport.http_client import HttpClient
from zoea.model.errors import ProviderError

BEFORE_THE_BODY = [kind for kind in KINDS if not kind.startswith("unasked")]


@walk_cases("kind", BEFORE_THE_BODY)
async def test_a_head_without_end_is_an_error_soon(kind: str) -> None:
    async with EndlessHeads(kind) as server:
        client = HttpClient(server.url, name="reefnet")
        with pytest.raises(ProviderError, match="the connection to reefnet broke"):
            await client.read_document("POST", "/", b"{}")
        await until(lambda: server.closed)
        assert server.sent < 16 * 2**20
        await client.close()


async def test_what_comes_without_a_request_closes_the_connection() -> None:
    async with EndlessHeads("unasked answers") as server:
        client = HttpClient(server.url, name="reefnet")
        assert (await client.read_document("POST", "/", b"{}"))[2] == b"ok"
        await until(lambda: server.closed)
        assert server.sent < 16 * 2**20
        await client.close()


class BigHead(WireServer):
    """Answers with a head that holds many headers, each within its own limit."""

    async def handle(self, request: Received, out: Outgoing) -> None:
        count = int(request.path.removeprefix("/"))
        out.whole(200, b"ok", {f"x-{number}": "y" * 1_000 for number in range(count)})


async def test_a_head_is_bounded_in_all() -> None:
    async with BigHead() as server:
        client = HttpClient(server.url, name="reefnet")
        assert (await client.read_document("GET", "/60"))[2] == b"ok"
        with pytest.raises(ProviderError, match="over 64 kB"):
            await client.read_document("GET", "/100")
        await client.close()


async def test_a_large_body_read_slowly_is_no_head() -> None:
    class Large(WireServer):
        async def handle(self, request: Received, out: Outgoing) -> None:
            out.whole(200, b"x" * 8_000_000)

    async with Large() as server:
        client = HttpClient(server.url, name="reefnet")
        reply = await client.open("GET", "/")
        assert len(await reply.read_all(8_000_000)) == 8_000_000
        await reply.close()
        await client.close()


class Interim(WireServer):
    """Sends so many interim answers, and the answer only after few of them."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    async def handle(self, request: Received, out: Outgoing) -> None:
        for _ in range(self._count):
            out.interim(103)
        if self._count <= MAX_INTERIM:
            out.json(200, {"ok": True})


async def test_a_few_interim_answers_are_read_and_many_small_ones_are_refused() -> None:
    async with Interim(MAX_INTERIM) as server:
        client = HttpClient(server.url, name="reefnet")
        assert (await client.read_document("GET", "/"))[0] == 200
        await client.close()
    async with Interim(MAX_INTERIM + 1) as server:
        client = HttpClient(server.url, name="reefnet", timeouts=Timeouts(first=5.0))
        with pytest.raises(ProviderError, match=f"over {MAX_INTERIM} interim answers"):
            await client.read_document("GET", "/")
        await client.close()


class OneRead(asyncio.Transport):
    """A connection whose bytes come in one read, which a network does not promise."""

    def __init__(self) -> None:
        super().__init__()
        self.is_aborted = False
        self.handler = BoundedResponseHandler(asyncio.get_running_loop())
        self.handler.connection_made(self)
        self.handler.set_response_params(read_timeout=10.0)

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_aborted


async def test_a_head_that_comes_in_one_read_with_its_body_is_bounded_in_all() -> None:
    headers = b"".join(b"x-%d: %s\r\n" % (number, b"y" * 1_000) for number in range(100))
    there = OneRead()
    there.handler.data_received(b"HTTP/1.1 200 OK\r\n" + headers + b"content-length: 2\r\n\r\nok")
    assert there.is_aborted
    assert isinstance(there.handler.exception(), BoundExceeded)
    assert "a head of over 64 kB" in str(there.handler.exception())


async def test_many_whole_answers_in_one_read_close_the_connection() -> None:
    there = OneRead()
    there.handler.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok" * 1_000)
    assert there.is_aborted
    assert "answers that no request asked for" in str(there.handler.exception())
