"""A child's messages are read in bounded lines. What cannot be read is answered for; floods end the session."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from tests.fakes.toolboxes import Faulty, asked, meta, with_catalogue
from tests.fakes.unwaited_processes import unwaited
from tests.tools.conftest import Opener
from tests.waiting import until
from zoea.tools import UpstreamConfig
from zoea.tools.results import parse_fields
from zoea.tools.upstream import child_transport, session_traffic
from zoea.tools.upstream.large_answer import LargeAnswers
from zoea.tools.upstream.observed_streams import ObservedReadStream
from zoea.tools.upstream.session_traffic import CALM_S, MAX_DROPPED, MessageRate, SessionEnd, SessionTraffic
from zoea.tools.upstream.stderr_log import StderrLog
from zoea.tools.upstream.unreadable_answer import describe_message, find_key

ENDLESS = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
ASKING = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "asking", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
    elif asked["method"] == "tools/list":
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"tools": []}}), flush=True)
        break
for number in range(2_000):
    print(json.dumps({"jsonrpc": "2.0", "id": f"{number:01000}", "method": "ping"}), flush=True)
import signal
signal.pause()
"""
"""A server that reads nothing once it has listed its tools, and asks."""
DEADLINE_S = 60.0


async def test_a_server_that_writes_a_line_without_end_is_given_up_soon(
    open_box: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a bound it would stay opening until its 300 s are over, and take all memory meanwhile.
    monkeypatch.setattr(child_transport, "MAX_LINE_BYTES", 2**20)
    box = open_box(
        UpstreamConfig(name="endless", command=sys.executable, args=("-c", ENDLESS), start_timeout=300.0, retries=0)
    )
    await until(lambda: box.status()[0].state == "down", within=60.0)


async def test_a_line_that_comes_in_pieces_is_read_whole(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    text = "ü€𝄞" * 200_000
    assert (await session.call(asked("echo", text=text), meta=meta())).content == text


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"cut', "it is not JSON"),
        ('{"result":{"content":[}],"jsonrpc":"2.0","id":ID}', "it is not JSON"),
        ('{"jsonrpc":"2.0","result":{"content":[', "it is not JSON"),
        ('{"jsonrpc":"2.0","id":ID,"result":"a text"}', "its result is not an object"),
        ('{"jsonrpc":"2.0","id":ID,"result":null}', "its result is not an object"),
        ('{"jsonrpc":"2.0","id":"ID"}', "it has neither a result nor an error"),
        ('{"id":ID,"result":{}}', 'it has no "jsonrpc": "2.0"'),
        ('{"jsonrpc":"2.0","id":ID,"error":"out of order"}', "its error is not an object with a code and a message"),
        ('{"jsonrpc":"2.0","id":ID,"result":' + "[" * 100_000, "it is nested too deeply"),
        ('{"jsonrpc":"2.0","id":ID,"result":{"_meta":{"a":' + "[" * 300 + "]" * 300 + "}}}", "it is nested too deeply"),
    ],
)
async def test_an_answer_that_cannot_be_read_is_an_error_at_once(
    open_box: Opener, faulty: Faulty, line: str, reason: str
) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    began = time.monotonic()
    result = await session.call(asked("answer", line=line), meta=meta(deadline_s=DEADLINE_S))
    assert time.monotonic() - began < DEADLINE_S / 2
    assert result.is_error
    assert result.content.startswith(f"the result of answer is lost: its answer cannot be read: {reason}")
    assert result.content.endswith("The call was probably carried out; check before repeating it.")
    assert len(faulty.seen("call", tool="answer")) == 1
    assert (await session.call(asked("echo", text="still here"), meta=meta())).content == "still here"


async def test_an_error_whose_data_is_nested_too_deeply_keeps_its_message(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    for depth in (300, 100_000):
        data = "[" * depth + "]" * depth
        line = '{"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":"no such belt","data":' + data + "}}"
        result = await session.call(asked("answer", line=line), meta=meta(deadline_s=DEADLINE_S))
        assert result.content == "faulty refused answer: no such belt (code -1)"


async def test_an_error_without_an_id_answers_the_only_call(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    line = '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"cannot read that"}}'
    result = await session.call(asked("answer", line=line), meta=meta(deadline_s=DEADLINE_S))
    assert result.content == "faulty refused answer: cannot read that (code -32700)"


@pytest.mark.parametrize("line", ["Server started", "[]", "5", '{"jsonrpc":"2.0","method":7}', "{"])
async def test_a_line_that_is_no_message_is_named_once_and_stops_nothing(
    open_box: Opener, faulty: Faulty, caplog: pytest.LogCaptureFixture, line: str
) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    for _ in range(3):
        call = asyncio.create_task(session.call(asked("answer", line=line), meta=meta(deadline_s=DEADLINE_S)))
        await until(lambda: "no message of MCP" in caplog.text)
        assert (await session.call(asked("echo", text="still here"), meta=meta())).content == "still here"
        call.cancel()
    named = [record.message for record in caplog.records if "no message of MCP" in record.message]
    assert len(named) == 1
    assert named[0].startswith(
        "faulty sent a line that is no message of MCP, which was left out; others are not told: it is"
    )


@pytest.mark.parametrize("text", ["a\\ud800b", "a\xffb"])
async def test_an_answer_with_broken_characters_is_read(open_box: Opener, faulty: Faulty, text: str) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    line = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"' + text + '"}]}}'
    result = await session.call(asked("answer", line=line), meta=meta(deadline_s=DEADLINE_S))
    assert not result.is_error
    assert result.content in ("a?b", "a\ufffdb")


async def test_an_answer_to_no_request_is_dropped(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    line = '{"jsonrpc":"2.0","id":999,"result":{"content":[{"type":"text","text":"for another"}]}}'
    result = await session.call(asked("answer", line=line), meta=meta(deadline_s=1.0))
    assert "did not answer within 1 s" in result.content


async def test_some_notifications_too_many_cost_the_session_nothing(open_box: Opener, faulty: Faulty) -> None:
    box = open_box(faulty.config())
    session = await with_catalogue(box.session(1, "alpha", ""))
    result = await session.call(asked("notify", count=MAX_DROPPED // 2), meta=meta())
    assert result.content == "notified"
    assert len(faulty.seen("start")) == 1


async def test_a_flood_of_notifications_ends_the_session_with_the_reason_and_it_is_opened_again(
    open_box: Opener, faulty: Faulty, tmp_path: Path
) -> None:
    (tmp_path / "quiet").mkdir()
    quiet = Faulty(tmp_path / "quiet")
    box = open_box(faulty.config(max_messages=10), quiet.config("quiet", max_messages=10))
    session = await with_catalogue(box.session(1, "alpha", ""))
    flood = asked("faulty__notify", count=1_000_000_000)
    call = asyncio.create_task(session.call(flood, meta=meta(deadline_s=DEADLINE_S)))
    while not call.done():
        assert not (await session.call(asked("quiet__whoami"), meta=meta(deadline_s=DEADLINE_S))).is_error
    assert (await call).is_unknown
    await until(lambda: len(faulty.seen("start")) == 2)
    assert not (await session.call(asked("faulty__whoami"), meta=meta())).is_error
    assert len(quiet.seen("start")) == 1


async def test_the_reason_of_a_flood_is_shown(open_box: Opener, faulty: Faulty) -> None:
    box = open_box(faulty.config(backoff=60.0, max_messages=10))
    session = await with_catalogue(box.session(1, "alpha", ""))
    call = asyncio.create_task(session.call(asked("notify", count=1_000_000_000), meta=meta(deadline_s=DEADLINE_S)))
    await until(lambda: box.status()[0].state == "lost" and "messages a second" in box.status()[0].last_error)
    assert box.status()[0].last_error == (
        "it sent over 10 messages a second (max_messages), 5,000 of them in a row, so its session was closed"
    )
    await call


def test_the_rate_lets_its_limit_pass_and_forgets_after_a_calm_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(session_traffic, "read_uptime_s", lambda: now)
    rate = MessageRate(64)
    assert sum(rate.take() for _ in range(1_000)) == 64
    assert rate.dropped == 936
    now += CALM_S + 0.5
    assert sum(rate.take() for _ in range(1_000)) == 64
    assert rate.dropped == 936, "counted anew"
    assert not rate.is_flood
    assert not any(rate.take() for _ in range(MAX_DROPPED))
    assert rate.is_flood


def test_an_id_inside_a_result_is_not_the_id_of_the_answer() -> None:
    assert find_key(b'{"jsonrpc":"2.0","result":{"content":[{"id":5,"text":"x') is None
    assert find_key(b'{"jsonrpc": "2.0", "id": "7", "result": {') == "7"
    assert find_key(b'{"id":7}') == "7"
    assert describe_message(b'{"jsonrpc":"2.0","id":3,"method":7}').key is None


def test_a_result_nested_without_end_has_no_fields() -> None:
    assert parse_fields({"content": [{"type": "text", "text": "[" * 100_000}]}) == {}


async def test_a_server_that_asks_and_takes_no_answer_loses_its_session(open_box: Opener) -> None:
    box = open_box(
        UpstreamConfig("asking", command=sys.executable, args=("-c", ASKING), max_messages=10_000, retries=0)
    )
    await until(lambda: "took none of the last 100 answers" in box.status()[0].last_error, within=60.0)


async def test_what_a_server_asks_is_answered_and_little_of_it_is_kept(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    for ident in ("7", "x" * 1_001, "8"):
        line = json.dumps({"jsonrpc": "2.0", "id": ident, "method": "ping", "params": {"_meta": {"a": "b"}}})
        await session.call(asked("ask", line=line), meta=meta())
    await until(lambda: len(faulty.seen("answered")) == 2)
    assert [one["message"] for one in faulty.seen("answered")] == [
        {"jsonrpc": "2.0", "id": ident, "result": {}} for ident in ("7", "8")
    ]


async def test_a_request_of_a_server_is_kept_without_what_it_holds() -> None:
    class Asking:
        async def __anext__(self) -> SessionMessage:
            params = {"_meta": {"a": "x" * 1_000_000}}
            return SessionMessage(types.JSONRPCRequest(jsonrpc="2.0", id=1, method="ping", params=params))

    traffic = SessionTraffic(SessionEnd(lambda: None), 10)
    item = await anext(ObservedReadStream(Asking(), {}, traffic, LargeAnswers(), lambda: None))
    assert isinstance(item, SessionMessage)
    assert isinstance(item.message, types.JSONRPCRequest)
    assert (item.message.id, item.message.params) == (1, None)


async def test_a_child_is_waited_for_though_its_end_is_cancelled(tmp_path: Path) -> None:
    config = UpstreamConfig(name="deaf", command=sys.executable, args=("-c", "import time; time.sleep(600)"))
    is_ending = asyncio.Event()

    async def use() -> None:
        async with child_transport.open_process(config, StderrLog(tmp_path / "deaf.log")):
            is_ending.set()

    task = asyncio.create_task(use())
    await is_ending.wait()
    task.cancel()
    await asyncio.wait((task,))
    assert unwaited.take() == []
