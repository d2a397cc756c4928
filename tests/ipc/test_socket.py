"""The socket server and client: access, bad frames, limits, slow readers, lost connections."""

from __future__ import annotations

import asyncio
import json
import math
import os
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.case_tables import walk_cases
from tests.fakes.swarm import FakeSwarm
from tests.waiting import until
from zoea import __version__
from zoea.ipc import socket_server
from zoea.ipc.protocol import PROTOCOL, REQUEST_LIMIT, api_methods, decode_error, encode_frame
from zoea.ipc.remote_swarm import RemoteSwarm, connect_to
from zoea.ipc.socket_server import SocketServer
from zoea.model.enums import ErrorClass, SenderKind
from zoea.model.errors import MysisMissing, NoRunningSwarm, OwnerError, ProviderError, UsageError, ZoeaError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import COMMANDER, ApprovalView, Event, Lagged, Sender
from zoea.process.lock import Holder

PATIENCE_S = 30.0


@pytest.fixture
def swarm() -> FakeSwarm:
    return FakeSwarm()


@pytest.fixture
async def server(swarm: FakeSwarm, runtime: Path) -> AsyncIterator[SocketServer]:
    made = SocketServer(swarm, runtime / "s.sock", started_at=5)
    await made.open()
    yield made
    await made.close()


class RawClient:
    """A front that writes bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, data: bytes) -> dict[str, Any]:
        self.writer.write(data)
        return await self.hear()

    async def hear(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            heard: dict[str, Any] = json.loads(await self.reader.readline())
        return heard


@pytest.fixture
async def raw(server: SocketServer) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_unix_connection(server.path, limit=64 * 1024 * 1024)
    front = RawClient(reader, writer)
    yield front
    writer.close()
    await writer.wait_closed()


@pytest.fixture
async def greeted(raw: RawClient) -> RawClient:
    reply = await raw.say(encode_frame(id=1, method="hello", args={"protocol": PROTOCOL, "version": "x"}))
    assert reply["result"] == {"protocol": PROTOCOL, "version": __version__, "pid": os.getpid(), "started_at": 5}
    return raw


async def test_the_socket_is_accessible_to_its_owner_only(server: SocketServer) -> None:
    assert stat.S_IMODE(server.path.stat().st_mode) == 0o600


async def test_a_connection_of_another_user_is_refused(server: SocketServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(NoRunningSwarm):
        await RemoteSwarm.connect(server.path)


async def test_the_number_of_connections_is_limited(server: SocketServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_server, "MAX_CONNECTIONS", 1)
    async with await RemoteSwarm.connect(server.path):
        with pytest.raises(OwnerError, match="1 cockpits and commands are connected"):
            await RemoteSwarm.connect(server.path)


async def test_silent_connections_keep_no_front_out(swarm: FakeSwarm, runtime: Path) -> None:
    server = SocketServer(swarm, runtime / "s.sock")
    await server.open()
    async with await RemoteSwarm.connect(server.path) as before:
        silent = [await asyncio.open_unix_connection(server.path) for _ in range(300)]
        async with await RemoteSwarm.connect(server.path) as remote:
            assert await remote.view() == await before.view()
        async with asyncio.timeout(PATIENCE_S):
            assert await silent[0][0].read() == b""
    for _, writer in silent:
        writer.close()
    await server.close()


async def test_a_connection_without_hello_is_closed_after_its_time(
    swarm: FakeSwarm, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_server, "HELLO_S", 0.05)
    server = SocketServer(swarm, runtime / "s.sock")
    await server.open()
    reader, writer = await asyncio.open_unix_connection(server.path)
    async with await RemoteSwarm.connect(server.path) as remote, asyncio.timeout(PATIENCE_S):
        assert await reader.read() == b""
        await remote.view()
    writer.close()
    await server.close()


def test_no_method_takes_a_sender_from_a_front() -> None:
    for method in api_methods().values():
        assert not any("Sender" in repr(kind) for kind in method.arguments.values()), method.name
    assert {name for name, method in api_methods().items() if method.has_sender} >= {"send", "broadcast"}


async def test_a_path_that_is_too_long_is_refused(swarm: FakeSwarm, runtime: Path) -> None:
    with pytest.raises(OwnerError, match="too long"):
        await SocketServer(swarm, runtime / ("x" * 120)).open()


async def test_an_unusable_path_is_refused(swarm: FakeSwarm, runtime: Path) -> None:
    (runtime / "file").write_text("")
    with pytest.raises(OwnerError, match="cannot listen"):
        await SocketServer(swarm, runtime / "file" / "s.sock").open()


async def test_a_socket_of_a_dead_owner_is_replaced(swarm: FakeSwarm, server: SocketServer) -> None:
    again = SocketServer(swarm, server.path)
    await again.open()
    async with await RemoteSwarm.connect(again.path) as remote:
        assert remote.pid == os.getpid()
    await again.close()


async def test_a_server_that_was_not_opened_can_be_closed(swarm: FakeSwarm, runtime: Path) -> None:
    await SocketServer(swarm, runtime / "s.sock").close()


async def test_the_first_request_must_be_hello(raw: RawClient) -> None:
    reply = await raw.say(encode_frame(id=1, method="view", args={}))
    assert reply["error"]["what"] == "the first request must be hello"


async def test_another_protocol_is_refused_with_both_versions(raw: RawClient) -> None:
    reply = await raw.say(encode_frame(id=1, method="hello", args={"protocol": 99}))
    assert reply["error"]["class"] == "OwnerError"
    assert f"protocol {PROTOCOL}" in reply["error"]["what"]
    assert (await raw.say(encode_frame(id=2, method="hello", args=[])))["error"]["class"] == "OwnerError"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"nonsense\n", "one JSON object"),
        (b"[1]\n", "one JSON object"),
        (b"\xff\xfe\n", "one JSON object"),
        (b'{"id":NaN}\n', "one JSON object"),
        (b"[" * 200_000 + b"\n", "one JSON object"),
        (b'{"id":"x"}\n', "integer id"),
        (b'{"id":true,"method":"view"}\n', "integer id"),
        (b'{"id":2,"method":"nothing"}\n', "no method 'nothing'"),
        (b'{"id":2,"method":7}\n', "no method 7"),
        (b'{"id":2,"method":"view","args":[]}\n', "args must be an object"),
        (b'{"id":2,"method":"start"}\n', "'ref' is missing"),
        (b'{"id":2,"method":"start","args":{"ref":5}}\n', "ref: str expected, not int"),
        (b'{"id":2,"method":"start","args":{"ref":"a","x":1}}\n', "no argument 'x'"),
        (b'{"id":2,"method":"send","args":{"ref":"a","text":"b","mode":"loud"}}\n', "queue, steer, interrupt"),
        (b'{"id":2,"method":"broadcast","args":{"text":"b","to":{"names":"alpha"}}}\n', "to.names: a list expected"),
        (b'{"id":2,"method":"desk_send","args":{}}\n', "no method"),
        (b'{"id":2,"method":"__init__","args":{}}\n', "no method"),
    ],
)
async def test_a_bad_frame_is_answered_with_an_error(greeted: RawClient, data: bytes, what: str) -> None:
    reply = await greeted.say(data)
    assert reply["error"]["class"] == "UsageError"
    assert what in reply["error"]["what"]
    assert (await greeted.say(encode_frame(id=3, method="view")))["result"]["myses"] == []


async def test_a_huge_frame_is_refused_and_skipped(greeted: RawClient) -> None:
    huge = b'{"id":2,"method":"send","args":{"text":"' + b"x" * (REQUEST_LIMIT + 10) + b'"}}\n'
    reply = await greeted.say(huge)
    assert "a frame may hold" in reply["error"]["what"]
    assert (await greeted.say(encode_frame(id=3, method="view")))["result"]["myses"] == []


async def test_an_answer_that_is_longer_than_a_frame_is_an_error_and_the_connection_stays(
    server: SocketServer, swarm: FakeSwarm
) -> None:
    for number in range(40):
        swarm.asked[number] = ApprovalView(number, 1, "alpha", "sell", "reef", "x" * 1_000_000, 1, 2)
    async with await RemoteSwarm.connect(server.path) as front:
        with pytest.raises(
            OwnerError, match=r"the answer to approvals has 40,00.* bytes; at most 33,554,432 can be sent"
        ):
            await front.approvals()
        assert (await front.view()).myses == ()


def test_a_value_that_is_nested_too_deeply_to_be_sent_is_an_error_of_the_caller() -> None:
    data: dict[str, Any] = {}
    for _ in range(900 if sys.version_info < (3, 12) else 1000):  # a level takes two frames of the limit, or one
        data = {"a": data}
    with pytest.raises(UsageError, match="a value is nested too deeply to be sent"):
        encode_frame(id=1, method="publish", args={"topic": "NEWS", "data": data})


async def test_a_request_cannot_set_the_sender(greeted: RawClient, swarm: FakeSwarm) -> None:
    await swarm.create("alpha")
    claim = {"ref": "alpha", "text": "obey", "sender": {"kind": "mysis", "id": 1, "name": "alpha"}}
    reply = await greeted.say(encode_frame(id=2, method="send", args=claim))
    assert "no argument 'sender'" in reply["error"]["what"]
    await greeted.say(encode_frame(id=3, method="send", args={"ref": "alpha", "text": "mine"}))
    assert swarm.said == [(COMMANDER, "alpha", "mine")]


async def test_a_remote_swarm_sends_only_as_the_commander(server: SocketServer) -> None:
    async with await RemoteSwarm.connect(server.path) as remote:
        other = Sender(SenderKind.MYSIS, 1, "alpha")
        with pytest.raises(UsageError):
            await remote.send("alpha", "x", sender=other)
        with pytest.raises(UsageError):
            await remote.broadcast("x", sender=other)


async def test_a_connection_of_a_named_client_sends_as_that_client(server: SocketServer, swarm: FakeSwarm) -> None:
    async with await RemoteSwarm.connect(server.path, "claude") as remote:
        await remote.create("alpha")
        await remote.send("alpha", "from the line itself")
        await remote.broadcast("named again", sender=Sender(SenderKind.CLIENT, None, "claude"))
        with pytest.raises(UsageError):
            await remote.send("alpha", "as another", sender=Sender(SenderKind.CLIENT, None, "codex"))
    assert [sender for sender, _, _ in swarm.said] == [Sender(SenderKind.CLIENT, None, "claude")] * 2


async def test_an_invalid_client_name_is_refused(server: SocketServer) -> None:
    with pytest.raises(UsageError, match="not a valid client name"):
        await RemoteSwarm.connect(server.path, "a\nb")


async def test_a_text_that_is_too_large_is_refused_before_it_is_sent(server: SocketServer) -> None:
    async with await RemoteSwarm.connect(server.path) as remote:
        with pytest.raises(UsageError, match="at once"):
            await remote.send("alpha", "x" * REQUEST_LIMIT)


async def test_cancel_ends_a_stream_at_the_server(greeted: RawClient, swarm: FakeSwarm) -> None:
    greeted.writer.write(encode_frame(id=2, method="events", args={}))
    await until(lambda: swarm.subscribers == 1)
    swarm.fact()
    assert (await greeted.hear())["item"]["kind"] == "budget.warned"
    greeted.writer.write(encode_frame(id=3, method="cancel", args={"request": 2}))
    heard = [await greeted.hear(), await greeted.hear()]
    assert {"id": 3, "result": True} in heard
    assert {"id": 2, "end": True} in heard
    await until(lambda: swarm.subscribers == 0)
    assert (await greeted.say(encode_frame(id=4, method="cancel", args={"request": 2})))["result"] is False


async def test_an_id_in_use_is_refused(greeted: RawClient) -> None:
    greeted.writer.write(encode_frame(id=2, method="events", args={}))
    assert "still running" in (await greeted.say(encode_frame(id=2, method="view")))["error"]["what"]


async def test_the_number_of_concurrent_requests_is_limited(
    greeted: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_server, "MAX_REQUESTS", 1)
    greeted.writer.write(encode_frame(id=2, method="events", args={}))
    assert "at most 1" in (await greeted.say(encode_frame(id=3, method="view")))["error"]["what"]


async def test_closing_the_reader_ends_a_stream_at_the_server(server: SocketServer, swarm: FakeSwarm) -> None:
    async with await RemoteSwarm.connect(server.path) as remote:
        swarm.fact()
        events = remote.events()
        assert isinstance(await anext(events), Event)
        await events.aclose()
        await until(lambda: swarm.subscribers == 0)


async def test_a_lost_connection_leaves_no_tasks_behind(server: SocketServer, swarm: FakeSwarm) -> None:
    reader, writer = await asyncio.open_unix_connection(server.path)
    writer.write(encode_frame(id=1, method="hello", args={"protocol": PROTOCOL}) + encode_frame(id=2, method="events"))
    await until(lambda: swarm.subscribers == 1)
    writer.transport.abort()
    await until(lambda: swarm.subscribers == 0)
    assert reader is not None


async def test_a_front_that_does_not_read_delays_no_other(server: SocketServer, swarm: FakeSwarm) -> None:
    _, stuck = await asyncio.open_unix_connection(server.path, limit=1024)
    stuck.transport.pause_reading()  # type: ignore[attr-defined]  # a read transport
    stuck.write(encode_frame(id=1, method="hello", args={"protocol": PROTOCOL}) + encode_frame(id=2, method="events"))
    await until(lambda: swarm.subscribers == 1)
    async with await RemoteSwarm.connect(server.path) as remote:
        events = remote.events()
        for _ in range(20):
            for _ in range(500):
                swarm.fact(note="n" * 200)
            item = await anext(events)
            assert isinstance(item, Event | Lagged)
            assert (await remote.view()).event_id > 0
        await events.aclose()
    await server.close()
    stuck.transport.abort()


async def test_a_slow_reader_gets_lagged_with_the_id_to_continue_from(server: SocketServer, swarm: FakeSwarm) -> None:
    async with await RemoteSwarm.connect(server.path) as remote:
        events = remote.events()
        swarm.fact()
        first = await anext(events)
        assert isinstance(first, Event)
        for _ in range(40):
            for _ in range(1_001):
                swarm.fact()
            await asyncio.sleep(0)
        seen = await anext(events)
        while isinstance(seen, Event):
            seen = await anext(events)
        assert seen.last_id >= first.id
        await events.aclose()


async def test_the_view_of_a_large_swarm_arrives_complete(server: SocketServer, swarm: FakeSwarm) -> None:
    for _ in range(socket_server.LARGE_LIST + 1):
        await swarm.create("")
    async with await RemoteSwarm.connect(server.path) as remote:
        changes = remote.changes()
        assert len((await anext(changes)).myses) == socket_server.LARGE_LIST + 1
        assert len((await remote.view()).myses) == socket_server.LARGE_LIST + 1
        await changes.aclose()


async def test_errors_keep_their_class_and_texts(server: SocketServer) -> None:
    async with await RemoteSwarm.connect(server.path) as remote:
        with pytest.raises(MysisMissing) as caught:
            await remote.mysis("nobody")
    assert caught.value.hint == "`zoea list` shows them"


async def test_an_unexpected_exception_is_reported_and_the_connection_stays(
    server: SocketServer, swarm: FakeSwarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken() -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(swarm, "start_all", broken)
    async with await RemoteSwarm.connect(server.path) as remote:
        with pytest.raises(ZoeaError, match="start_all failed inside Zoea") as caught:
            await remote.start_all()
        assert "secret" not in str(caught.value)
        assert await remote.stop_all() == 0


async def test_shutdown_reaches_the_swarm(server: SocketServer, swarm: FakeSwarm) -> None:
    async with await RemoteSwarm.connect(server.path) as remote:
        await remote.shutdown()
    assert swarm.shutdowns == 1


async def test_requests_fail_after_the_swarm_has_ended(server: SocketServer) -> None:
    async with await RemoteSwarm.connect(server.path) as remote:
        events = remote.events()
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        await server.close()
        with pytest.raises(NoRunningSwarm):
            await waiting
        with pytest.raises(NoRunningSwarm):
            await remote.view()
        await until(lambda: remote.is_gone)
        with pytest.raises(NoRunningSwarm, match="has ended"):
            await remote.view()


async def test_a_request_that_is_cut_by_the_end_of_the_swarm_has_no_answer_of_another_version(
    server: SocketServer, swarm: FakeSwarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def stuck(*_: object, **__: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(swarm, "send", stuck)
    async with await RemoteSwarm.connect(server.path) as remote:
        sending = asyncio.create_task(remote.send("alpha", "hello"))
        await begun.wait()
        await server.close()
        with pytest.raises(NoRunningSwarm, match="has ended"):
            await sending


async def test_connecting_without_a_server_raises_no_running_swarm(runtime: Path) -> None:
    with pytest.raises(NoRunningSwarm):
        await connect_to(None)
    with pytest.raises(NoRunningSwarm):
        await connect_to(Holder(1, str(runtime / "gone.sock")))


async def test_connecting_to_a_silent_owner_times_out(
    server: SocketServer, swarm: FakeSwarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never() -> int:
        await asyncio.Event().wait()
        return 0

    monkeypatch.setattr(swarm, "stop_all", never)
    async with await RemoteSwarm.connect(server.path) as remote:
        monkeypatch.setattr("zoea.ipc.remote_swarm.REPLY_TIMEOUT_S", 0.05)
        with pytest.raises(OwnerError, match="did not answer"):
            await remote.stop_all()


async def test_an_answer_of_another_shape_raises_owner_error(runtime: Path) -> None:
    async def owner(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            asked = json.loads(line)
            result = {"pid": 1} if asked["method"] == "hello" else {"version": "many"}
            writer.write(encode_frame(id=asked["id"], result=result))
        writer.close()

    listening = await asyncio.start_unix_server(owner, runtime / "s.sock")
    async with await RemoteSwarm.connect(runtime / "s.sock") as remote:
        with pytest.raises(OwnerError, match="does not fit"):
            await remote.view()
    listening.close()


def test_every_method_of_the_api_is_in_the_protocol() -> None:
    assert set(api_methods()) == {name for name in dir(SwarmApi) if not name.startswith("_")}
    assert {name for name, method in api_methods().items() if method.streams} == {"changes", "events"}
    assert all("sender" not in method.arguments for method in api_methods().values())


def test_an_unknown_error_class_becomes_zoea_error() -> None:
    assert type(decode_error({"class": "os", "what": "x"})) is ZoeaError
    assert type(decode_error({"class": "Nonsense", "title": "T", "what": "x"})) is ZoeaError
    failed = ProviderError("no", kind=ErrorClass.AUTH).as_dict()
    assert (type(decode_error(dict(failed))), decode_error(dict(failed)).title) == (ProviderError, ProviderError.title)


NUMBERS = [
    (method.name, name)
    for method in api_methods().values()
    for name, kind in method.arguments.items()
    if {int, float} & {kind, *get_args(kind)}
]


@walk_cases("number", [2**63, -(2**63) - 1, 10**400, math.inf, -math.inf])
@walk_cases(("method", "name"), NUMBERS)
def test_a_number_that_no_column_holds_is_refused_by_its_name(method: str, name: str, number: float) -> None:
    about = api_methods()[method]
    with pytest.raises(UsageError, match=f"{method}: {name}: a number of at most 64 bits expected"):
        about.read({**dict.fromkeys(about.required), name: number})


def test_a_number_inside_an_argument_is_bounded_too() -> None:
    assert ("events", "after") in NUMBERS
    assert api_methods()["events"].read({"after": 2**63 - 1}) == {"after": 2**63 - 1}
    with pytest.raises(UsageError, match=r"publish: .*a\[1\]: a number of at most 64 bits"):
        api_methods()["publish"].read({**dict.fromkeys(api_methods()["publish"].required), "data": {"a": [1, 2**63]}})
