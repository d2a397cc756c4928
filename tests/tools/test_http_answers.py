"""An answer over HTTP must be readable and that of its request. Heads and floods are bounded."""

from __future__ import annotations

import gzip
import time
from collections.abc import AsyncIterator

import httpx2
import pytest

from tests.case_tables import walk_cases
from tests.fakes.endless_heads import KINDS, EndlessHeads
from tests.fakes.mcp_wire import McpWire
from tests.fakes.toolboxes import asked, meta, with_catalogue
from tests.tools.conftest import Opener
from tests.waiting import until
from zoea.model.request import ToolResult
from zoea.tools import UpstreamConfig
from zoea.tools.upstream.checked_answer import CheckedEvents
from zoea.tools.upstream.http_pool import HttpPool
from zoea.tools.upstream.large_answer import LargeAnswers
from zoea.tools.upstream.session_traffic import SessionEnd, SessionTraffic

DEADLINE_S = 60.0
TEXT = b'{"content":[{"type":"text","text":"written"}]}'
LOST = "the result of write is lost: "
CHECK = ". The call was probably carried out; check before repeating it."


def traffic() -> SessionTraffic:
    return SessionTraffic(SessionEnd(lambda: None), 64)


def checked(stream: httpx2.AsyncByteStream) -> CheckedEvents:
    return CheckedEvents(stream, "1", traffic(), LargeAnswers())


async def _call(
    open_box: Opener, body: bytes, *, events: bool, headers: dict[str, str] | None = None
) -> tuple[ToolResult, McpWire]:
    async with McpWire(body, events=events, headers=headers) as server:
        box = open_box(UpstreamConfig("wire", url=f"{server.url}/mcp"))
        session = await with_catalogue(box.session(1, "alpha", ""))
        began = time.monotonic()
        result = await session.call(asked("write"), meta=meta(deadline_s=DEADLINE_S))
        assert time.monotonic() - began < DEADLINE_S / 2
        await box.close()
    return result, server


@pytest.mark.parametrize(
    ("is_repeatable", "calls", "said"),
    [(False, 1, "The call may or may not have been carried out"), (True, 2, "Zoea reopens it; try again later")],
)
async def test_a_stream_that_ends_without_an_answer_never_says_that_nothing_was_done(
    open_box: Opener, is_repeatable: bool, calls: int, said: str
) -> None:
    async with McpWire(b"id: 1\ndata: \n\n", events=True) as server:
        more = {"idempotent": ("write",)} if is_repeatable else {}
        box = open_box(UpstreamConfig("wire", url=f"{server.url}/mcp", **more))
        session = box.session(1, "alpha", "")
        await session.catalogue()
        result = await session.call(asked("write"), meta=meta(deadline_s=DEADLINE_S))
        await box.close()
    assert server.calls == calls
    assert said in result.content
    assert "was not carried out" not in result.content


async def test_a_call_that_is_accepted_without_an_answer_was_probably_carried_out(open_box: Opener) -> None:
    async with McpWire(b"", status=202) as server:
        box = open_box(UpstreamConfig("wire", url=f"{server.url}/mcp"))
        session = await with_catalogue(box.session(1, "alpha", ""))
        result = await session.call(asked("write"), meta=meta(deadline_s=DEADLINE_S))
        await box.close()
    assert server.calls == 1
    assert f"{LOST}HTTP 202 Accepted, without an answer{CHECK}" in result.content


@pytest.mark.parametrize("events", [False, True])
@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b'{"jsonrpc":"2.0","id":ID,"result":%s}' % TEXT, "written"),
        (b'{"result":%s,"id":"ID","jsonrpc":"2.0"}' % TEXT, "written"),
        (b'{"result":%s,"jsonrpc":"2.0","id":ID,"x":1}' % TEXT, "written"),
        (b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"a\\ud800b"}]}}', "a?b"),
        (b'{"jsonrpc":"2.0","id":OTHER,"result":%s}' % TEXT, f"{LOST}its answer has the id of another request{CHECK}"),
        (
            b'{"result":%s,"jsonrpc":"2.0","id":"OTHER","x":1}' % TEXT,
            f"{LOST}its answer has the id of another request{CHECK}",
        ),
        (
            b'{"jsonrpc":"2.0","id":OTHER,"error":{"code":1,"message":"no"}}',
            f"{LOST}its answer has the id of another request{CHECK}",
        ),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}', "wire refused write: no (code 1)"),
        (b'{"jsonrpc":"2.0","result":%s}' % TEXT, f"{LOST}its answer cannot be read: it has no id{CHECK}"),
        (
            b'{"jsonrpc":"2.0","id":ID,"result":"text"}',
            f"{LOST}its answer cannot be read: its result is not an object{CHECK}",
        ),
        (
            b'{"jsonrpc":"2.0","id":ID}',
            f"{LOST}its answer cannot be read: it has neither a result nor an error{CHECK}",
        ),
        (b"[1]", f"{LOST}its answer cannot be read: it is not a JSON object{CHECK}"),
    ],
)
async def test_an_answer_is_that_of_its_request_or_an_error_at_once(
    open_box: Opener, events: bool, message: bytes, said: str
) -> None:
    body = b"event: message\nid: 1\ndata: " + message + b"\n\n" if events else message
    result, server = await _call(open_box, body, events=events)
    assert result.content == said
    assert result.is_error == (said not in ("written", "a?b"))
    assert server.calls == 1


@pytest.mark.parametrize("events", [False, True])
async def test_an_answer_that_is_cut_is_an_error_at_once(open_box: Opener, events: bool) -> None:
    message = b'{"jsonrpc":"2.0","id":ID,"result":{"content":['
    result, _ = await _call(open_box, b"data: " + message + b"\n\n" if events else message, events=events)
    assert result.content.startswith(f"{LOST}its answer cannot be read: it is not JSON: ")


async def test_a_notification_before_the_answer_passes(open_box: Opener) -> None:
    note = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\r\n\r\n'
    answer = b'data: {"jsonrpc":"2.0",\ndata: "id":ID,"result":' + TEXT + b"}\n\n"
    result, _ = await _call(open_box, b": ping\n\n" + note + answer, events=True)
    assert result.content == "written"


async def test_a_large_answer_with_another_id_is_refused(open_box: Opener) -> None:
    large = b'{"jsonrpc":"2.0","id":OTHER,"result":{"content":[{"type":"text","text":"' + b"x" * 300_000 + b'"}]}}'
    result, _ = await _call(open_box, large, events=False)
    assert result.content == f"{LOST}its answer has the id of another request{CHECK}"


async def test_a_compressed_answer_is_refused(open_box: Opener) -> None:
    body = gzip.compress(b'{"jsonrpc":"2.0","id":1,"result":' + TEXT + b"}")
    result, _ = await _call(open_box, body, events=False, headers={"content-encoding": "gzip"})
    assert result.is_unknown
    assert "the answer is compressed as 'gzip', which was not requested" in result.content


async def test_events_are_checked_however_they_are_cut() -> None:
    class Pieces(httpx2.AsyncByteStream):
        def __init__(self, data: bytes, size: int) -> None:
            self._pieces = [data[at : at + size] for at in range(0, len(data), size)]

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in self._pieces:
                yield piece

    data = b'id: 1\r\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\r\n\r\ndata: {"id":2,"result":{}}\n\n: end\n'
    whole = b"".join([piece async for piece in checked(Pieces(data, len(data)))])
    assert whole.startswith(data[:50])
    assert whole.endswith(b": end\n")
    assert b'"code": -32094' in whole
    for size in range(1, 9):
        read = b"".join([piece async for piece in checked(Pieces(data, size))])
        assert read.replace(b"\r\n", b"\n").replace(b"\r", b"\n") == whole.replace(b"\r\n", b"\n")


@walk_cases("kind", KINDS)
async def test_a_head_without_end_is_given_up_soon(kind: str) -> None:
    pool = HttpPool()
    try:
        async with EndlessHeads(kind) as server, pool.client({}, traffic(), LargeAnswers()) as client:
            try:
                answer = await client.post(f"{server.url}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "x"})
            except httpx2.RemoteProtocolError:
                pass
            else:
                assert answer.status_code == 502
                assert ("HTTP 200 OK, but with a text" in answer.text) is kind.startswith("unasked")
            if not kind.startswith("unasked"):
                await until(lambda: server.closed)
            assert server.sent < 16 * 2**20
    finally:
        await pool.close()
