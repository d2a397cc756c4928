"""Every message that the protocol's schema allows: the client never fails at one, and no mysis is stuck."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from acp import schema
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agents.agent_harness import agent_swarm, last_outcome, say
from tests.case_tables import walk_cases
from tests.fakes.acp_messages import ANY, messages
from tests.waiting import until
from zoea.agents.agent_connection import AgentConnection
from zoea.agents.agent_process import parse
from zoea.agents.updates import AgentUpdate, CallTold, MergedCall, PermissionOption, read_update
from zoea.model.errors import FilesError

NOTIFICATIONS = messages(schema.SessionNotification)
PERMISSIONS = messages(schema.RequestPermissionRequest)


class _Client:
    """Takes everything, and refuses every file."""

    def __init__(self) -> None:
        self.updates: list[AgentUpdate] = []

    def take_update(self, update: AgentUpdate) -> None:
        self.updates.append(update)

    async def ask_permission(self, call: CallTold, options: tuple[PermissionOption, ...]) -> str | None:
        return options[0].option_id if options else None

    async def read_file(self, path: str, line: int | None, limit: int | None) -> str:
        raise FilesError("no")

    async def write_file(self, path: str, content: str) -> None:
        raise FilesError("no")


class _Wire:
    """A transport that brings some messages, and keeps what is sent."""

    name = "wire"

    def __init__(self, incoming: list[dict[str, Any]]) -> None:
        self._incoming = incoming
        self.sent: list[dict[str, Any]] = []
        self.is_over = asyncio.Event()

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(json.loads(json.dumps(message)))

    async def receive(self) -> dict[str, Any] | None:
        if self._incoming:
            return self._incoming.pop(0)
        self.is_over.set()
        return None

    async def close(self) -> None:
        return None


async def exchange(incoming: list[dict[str, Any]], session: str) -> tuple[_Wire, _Client]:
    lines = [parse(json.dumps(message).encode()) for message in incoming]
    wire, client = _Wire([line for line in lines if line is not None]), _Client()
    connection = AgentConnection(wire)  # type: ignore[arg-type]  # as much of a process as messages need
    connection.attach(session, client)
    requests = sum("id" in one and "method" in one for one in incoming)
    await wire.is_over.wait()
    await until(lambda: len(wire.sent) >= requests)
    await connection._rpc.close()
    return wire, client


@given(st.lists(NOTIFICATIONS, max_size=5))
def test_updates_of_any_form_are_taken(told: list[Any]) -> None:
    for one in told:
        if isinstance(one, dict):
            one["sessionId"] = "s"
    incoming = [{"jsonrpc": "2.0", "method": "session/update", "params": one} for one in told]
    _, client = asyncio.run(exchange(incoming, "s"))
    calls: dict[str, MergedCall] = {}
    for update in client.updates:
        if isinstance(update, CallTold):
            calls.setdefault(update.call_id, MergedCall(update)).merge(update)
    for call in calls.values():
        assert isinstance(json.loads(call.write_arguments()), dict)
        assert isinstance(json.loads(call.write_scope()), dict)
        assert call.write_result()
        assert all(isinstance(path, str) for path in call.files)


@given(st.lists(PERMISSIONS, max_size=4), ANY)
def test_requests_of_any_form_are_answered(asked: list[Any], strange: Any) -> None:
    incoming: list[dict[str, Any]] = []
    for number, one in enumerate(asked):
        if isinstance(one, dict):
            one["sessionId"] = "s"
        incoming.append({"jsonrpc": "2.0", "id": number, "method": "session/request_permission", "params": one})
    for method in ("fs/read_text_file", "fs/write_text_file", "terminal/create", "elicitation/create", "x"):
        incoming.append({"jsonrpc": "2.0", "id": f"{method} id", "method": method, "params": strange})
    wire, _ = asyncio.run(exchange(incoming, "s"))
    assert {one["id"] for one in wire.sent} == {one["id"] for one in incoming}
    assert all(("result" in one) != ("error" in one) for one in wire.sent)


@settings(max_examples=3)
@given(st.lists(NOTIFICATIONS, min_size=20, max_size=60))
def test_a_turn_of_any_updates_ends(told: list[Any]) -> None:
    steps = [["update", one["update"]] for one in told if isinstance(one, dict) and isinstance(one.get("update"), dict)]

    async def work(folder: Path) -> str:
        async with agent_swarm(folder) as s:
            await say(s, *steps, ["say", "done"])
            await s.settled()
            return await last_outcome(s)

    with tempfile.TemporaryDirectory() as folder:
        assert asyncio.run(work(Path(folder))) == "answered"


@given(st.binary(max_size=200) | ANY.map(lambda value: json.dumps(value).encode()))
def test_lines_of_any_form_are_messages_or_none(line: bytes) -> None:
    message = parse(line)
    assert message is None or ("id" in message or "method" in message)


def test_an_update_of_an_unknown_kind_is_none() -> None:
    assert read_update(object()) is None


@walk_cases("number", ["true", "false", "1.5", "[1]"])
def test_an_id_that_could_be_taken_for_another_is_refused(number: str) -> None:
    assert parse(b'{"jsonrpc":"2.0","method":"fs/read_text_file","id":' + number.encode() + b"}") is None
