"""An endless answer over HTTP is given up and takes no memory."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.wire_server import Outgoing, Received, WireServer
from tests.tools.conftest import Opener
from tests.waiting import until
from zoea.tools import UpstreamConfig
from zoea.tools.upstream import http_pool


class Endless(WireServer):
    """Answers everything with a piece that never ends."""

    def __init__(self, content_type: str, piece: bytes) -> None:
        super().__init__()
        self._content_type = content_type
        self._piece = piece

    async def handle(self, request: Received, out: Outgoing) -> None:
        out.begin(self._content_type)
        out.piece(b"data: " if "event" in self._content_type else b'"')
        while True:
            out.piece(self._piece)
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("content_type", "piece"),
    [("application/json", b"x" * 65_536), ("application/json", b"\n" * 65_536), ("text/event-stream", b"x" * 65_536)],
)
async def test_an_answer_without_end_is_given_up_soon(
    content_type: str, piece: bytes, open_box: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_pool, "MAX_LINE_BYTES", 2**20)
    async with Endless(content_type, piece) as server:
        box = open_box(UpstreamConfig("endless", url=f"{server.url}/mcp", start_timeout=300.0, retries=0))
        await until(lambda: box.status()[0].state == "down", within=60.0)
        assert box.status()[0].last_error
        await box.close()
