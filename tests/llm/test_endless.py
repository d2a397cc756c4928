"""Answers without end, without content, or larger than they look end in an error."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from contextlib import aclosing

import pytest

from tests.fakes.openai_server import OpenAIServer
from tests.fakes.wire_server import Outgoing, Received
from tests.llm.sample_requests import answer, provider, request
from zoea.llm.providers import http_provider
from zoea.llm.transport.http_client import HttpClient
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError
from zoea.model.request import BytesReceived

CHUNK = b"data: " + json.dumps({"choices": [{"delta": {"content": "x" * 1000}}]}).encode() + b"\n\n"
DONE = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


class Bodies(OpenAIServer):
    """Sends each of its pieces as they are, for ever if it has to."""

    def __init__(
        self, piece: bytes, *, times: int | None = None, encoding: str = "", kind: str = "text/event-stream"
    ) -> None:
        super().__init__()
        self._piece, self._times, self._encoding, self._kind = piece, times, encoding, kind

    async def handle(self, request: Received, out: Outgoing) -> None:
        out.begin(self._kind, {"content-encoding": self._encoding} if self._encoding else {})
        sent = 0
        while self._times is None or sent < self._times:
            out.piece(self._piece)
            sent += 1
            await asyncio.sleep(0)
        out.end()


async def test_an_answer_without_end_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_provider, "MAX_ANSWER_BYTES", 2**20)
    async with Bodies(CHUNK) as server:
        source = provider("openai", server.base_url)
        with pytest.raises(ProviderError) as caught:
            await answer(source)
        assert caught.value.kind is ErrorClass.BAD_REQUEST
        assert caught.value.what == "reefnet sent more than 1 MiB for one answer, and did not end"
        await source.close()


async def test_an_event_without_end_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_provider, "MAX_EVENT_BYTES", 2**20)
    async with Bodies(b"x" * 65_536) as server:
        source = provider("openai", server.base_url)
        with pytest.raises(ProviderError) as caught:
            await answer(source)
        assert caught.value.kind is ErrorClass.BAD_REQUEST
        assert caught.value.what == "reefnet sent over 1 MiB in one event of its answer"
        await source.close()


async def test_keep_alive_without_content_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Bodies(b": still here\n\n") as server:
        source = provider("openai", server.base_url)
        monkeypatch.setattr(source, "max_silence_s", 0.0)
        with pytest.raises(ProviderError) as caught:
            await answer(source)
        assert caught.value.kind is ErrorClass.TRANSIENT
        assert caught.value.what == "reefnet sent keep-alive for 0 s, but no content"
        await source.close()


async def test_a_whole_answer_that_comes_byte_by_byte_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Bodies(b" ", kind="application/json") as server:
        source = provider("openai", server.base_url)
        monkeypatch.setattr(source, "max_silence_s", 0.0)
        with pytest.raises(ProviderError) as caught:
            await answer(source)
        assert caught.value.kind is ErrorClass.TRANSIENT
        assert caught.value.title == "The provider's answer has no end"
        assert caught.value.what == "reefnet sent its answer for 0 s, and did not end it"
        await source.close()


async def test_a_list_or_an_error_that_comes_byte_by_byte_has_a_deadline() -> None:
    async with Bodies(b" ", kind="application/json") as server:
        client = HttpClient(server.base_url, name="reefnet")
        reply = await client.open("GET", "/models")
        with pytest.raises(ProviderError, match="did not end it"):
            await reply.read_all(within=0.0)
        await reply.close()
        await client.close()


async def test_bytes_without_content_are_told_as_progress() -> None:
    async with Bodies(b": still here\n\n") as server:
        source = provider("openai", server.base_url)
        async with aclosing(source.stream(request())) as stream:
            assert await anext(stream) == BytesReceived()
        await source.close()


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_packed_stream_is_read_as_it_comes(encoding: str) -> None:
    packed = gzip.compress(CHUNK * 500 + DONE) if encoding == "gzip" else zlib.compress(CHUNK * 500 + DONE)
    async with Bodies(packed, times=1, encoding=encoding) as server:
        source = provider("openai", server.base_url)
        assert len((await answer(source)).text) == 500_000
        await source.close()


async def test_a_small_body_that_unpacks_without_end_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_provider, "MAX_ANSWER_BYTES", 2**20)
    async with Bodies(gzip.compress(b": " + b"\0" * 2**24), times=1, encoding="gzip") as server:
        source = provider("openai", server.base_url)
        with pytest.raises(ProviderError, match="more than 1 MiB"):
            await answer(source)
        await source.close()


@pytest.mark.parametrize(
    ("body", "encoding", "said"),
    [
        (CHUNK, "gzip", "it is not compressed as its header says"),
        (gzip.compress(gzip.compress(DONE)), "gzip, gzip", "it is compressed as 'gzip, gzip', which was not requested"),
    ],
)
async def test_a_body_that_cannot_be_decompressed_is_an_error(body: bytes, encoding: str, said: str) -> None:
    async with Bodies(body, times=1, encoding=encoding) as server:
        source = provider("openai", server.base_url)
        with pytest.raises(ProviderError) as caught:
            await answer(source)
        assert caught.value.kind is ErrorClass.BAD_REQUEST
        assert caught.value.what.startswith(f"the answer of reefnet cannot be decompressed: {said}")
        await source.close()
