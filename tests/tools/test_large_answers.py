"""Large answers pass the SDK under a mark.

More values than can be parsed at once are refused with the reason.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from mcp_types import methods

from tests.fakes.mcp_wire import McpWire
from tests.fakes.toolboxes import Faulty, asked, meta, with_catalogue
from tests.fakes.wire_server import Outgoing, Received
from tests.tools.conftest import Opener
from tests.waiting import until
from zoea.model.request import ToolResult
from zoea.text.large_json import LARGE_COUNT, MAX_VALUES, count_values, parse_large
from zoea.tools import UpstreamConfig
from zoea.tools.upstream import checked_answer, large_answer
from zoea.tools.upstream.checked_answer import CheckedEvents
from zoea.tools.upstream.child_transport import LineReadStream
from zoea.tools.upstream.large_answer import MAX_KEPT_BYTES, LargeAnswers
from zoea.tools.upstream.listed_tools import MAX_LISTED_VALUES, PROBLEM, repair_tool_list
from zoea.tools.upstream.session_traffic import MAX_DROPPED, SessionEnd, SessionTraffic

LINE = '{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":%s}}'
DENSE = {f"k{number}": [number] for number in range(40_000)}
WIRES = ("stdio", "json", "events")


@pytest.fixture
def checked_counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many values the SDK checked in each result."""
    counts: list[int] = []
    real = methods.validate_server_result

    def validate(method: str, version: str, raw: Any) -> Any:
        counts.append(count_values(raw, MAX_VALUES))
        return real(method, version, raw)

    monkeypatch.setattr(methods, "validate_server_result", validate)
    return counts


async def _call(wire: str, structured: str, open_box: Opener, faulty: Faulty) -> ToolResult:
    line = LINE % structured
    if wire == "stdio":
        session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
        return await session.call(asked("answer", line=line), meta=meta(deadline_s=60.0))
    body = line.encode()
    async with McpWire(b"data: " + body + b"\n\n" if wire == "events" else body, events=wire == "events") as server:
        box = open_box(UpstreamConfig("wire", url=f"{server.url}/mcp"))
        session = await with_catalogue(box.session(1, "alpha", ""))
        result = await session.call(asked("write"), meta=meta(deadline_s=60.0))
        await box.close()
    return result


@pytest.mark.parametrize("wire", WIRES)
async def test_a_dense_result_arrives_whole_and_the_sdk_checks_none_of_it(
    wire: str, open_box: Opener, faulty: Faulty, checked_counts: list[int]
) -> None:
    result = await _call(wire, json.dumps(DENSE), open_box, faulty)
    assert json.loads(result.content) == DENSE
    assert max(checked_counts) <= LARGE_COUNT


@pytest.mark.parametrize("wire", WIRES)
async def test_a_dense_result_is_parsed_beside_the_event_loop(
    wire: str, open_box: Opener, faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()

    def parse(data: bytes) -> Any:
        threads.add(threading.get_ident())
        return parse_large(data)

    monkeypatch.setattr(large_answer, "parse_large", parse)
    assert not (await _call(wire, json.dumps(DENSE), open_box, faulty)).is_error
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("wire", WIRES)
async def test_a_result_of_too_many_values_is_refused_with_the_reason(
    wire: str, open_box: Opener, faulty: Faulty
) -> None:
    result = await _call(wire, f"[{'1,' * MAX_VALUES}1]", open_box, faulty)
    assert result.is_error
    assert f"its answer cannot be read: it holds over {MAX_VALUES:,} values" in result.content


@pytest.mark.parametrize("wire", WIRES)
async def test_escapes_that_are_no_characters_are_replaced_in_a_large_result(
    wire: str, open_box: Opener, faulty: Faulty
) -> None:
    result = await _call(wire, json.dumps({"text": "x" * 300_000 + "\ud800"}), open_box, faulty)
    assert result.content.endswith('x?"}')


def test_tools_with_dense_schemas_are_left_out() -> None:
    small = {"name": "small", "inputSchema": {"type": "object"}}
    dense = {"name": "dense", "inputSchema": {"properties": {f"p{number}": {} for number in range(LARGE_COUNT)}}}
    wire: dict[str, Any] = {"tools": [small, dense, small]}
    repair_tool_list(wire)
    assert [(tool["name"], PROBLEM in tool.get("_meta", {})) for tool in wire["tools"]] == [
        ("small", False),
        ("dense", True),
        ("small", False),
    ]
    wire = {"tools": [{"name": "t", "inputSchema": {"enum": list(range(500))}}] * 100}
    repair_tool_list(wire)
    assert count_values(wire, MAX_VALUES) <= MAX_LISTED_VALUES + LARGE_COUNT


class Stream(httpx2.AsyncByteStream):
    """A body of the same piece again and again."""

    def __init__(self, piece: bytes, times: int) -> None:
        self._piece, self._times = piece, times
        self.sent = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self._times):
            self.sent += 1
            yield self._piece


async def test_comments_without_end_end_the_session_with_the_reason() -> None:
    traffic = SessionTraffic(SessionEnd(lambda: None), 10)
    stream = Stream(b": still here\n\n" * 100, 10_000)
    with pytest.raises(httpx2.ReadError, match=r"over 10 messages a second \(max_messages\)"):
        async for _ in CheckedEvents(stream, None, traffic, LargeAnswers()):
            pass
    assert traffic.end.is_over
    assert stream.sent <= MAX_DROPPED // 100 + 2


async def test_an_event_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_answer, "MAX_EVENT_BYTES", 2**20)
    stream = Stream(b": a line of a comment\n" * 1_000, 10_000)
    with pytest.raises(httpx2.ReadError, match="an event of over 1 MiB"):
        async for _ in CheckedEvents(stream, "1", SessionTraffic(SessionEnd(lambda: None), 10), LargeAnswers()):
            pass
    assert stream.sent < 100


async def test_a_large_message_that_is_no_answer_is_dropped() -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 300_000}}
    stream = Stream(b"data: " + json.dumps(note).encode() + b"\n\n", 3)
    events = CheckedEvents(stream, None, SessionTraffic(SessionEnd(lambda: None), 10), LargeAnswers())
    assert b"".join([piece async for piece in events]) == b""


class Commenting(McpWire):
    """Answers a call with comments that never end."""

    async def handle(self, request: Received, out: Outgoing) -> None:
        if request.method != "POST" or request.json.get("method") != "tools/call":
            await super().handle(request, out)
            return
        out.begin("text/event-stream")
        while not request.gone.is_set():
            out.piece(b": still here\n\n" * 1_000)
            await asyncio.sleep(0)


async def test_a_call_that_is_answered_with_comments_alone_ends_and_its_upstream_says_why(
    open_box: Opener, faulty: Faulty
) -> None:
    async with Commenting(b"", events=True) as server:
        wire = UpstreamConfig("wire", url=f"{server.url}/mcp", max_messages=10, backoff=60.0)
        box = open_box(wire, faulty.config())
        session = await with_catalogue(box.session(1, "alpha", ""))
        call = asyncio.create_task(session.call(asked("write"), meta=meta(deadline_s=60.0)))
        while not call.done():
            assert not (await session.call(asked("whoami"), meta=meta(deadline_s=60.0))).is_error
        assert (await call).is_error
        await until(lambda: "over 10 messages a second" in box.status()[0].last_error)
        assert [one.state for one in box.status() if one.name == "faulty"] == ["open"]
        await box.close()


async def test_tiny_lines_leave_the_event_loop_its_turns() -> None:
    count = 10_000
    code = f"import sys; sys.stdout.write('{{}}\\n' * {count})"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdin=PIPE, stdout=PIPE)
    lines, turns = 0, 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counter = asyncio.create_task(count_turns())
    async for _ in LineReadStream(process):
        lines += 1
    counter.cancel()
    await process.wait()
    assert lines == count
    assert turns >= count / 100


async def test_answers_that_no_request_waits_for_are_kept_within_a_bound() -> None:
    large, size = LargeAnswers(), MAX_KEPT_BYTES // 4
    marks = [large.keep({"number": number}, size) for number in range(6)]
    assert [large.take(mark).get("number") for mark in marks] == [None, None, 2, 3, 4, 5]
