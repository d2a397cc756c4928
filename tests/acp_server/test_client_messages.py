"""Every message of a client that the protocol's schema allows: all are answered, and no session is stuck after them."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError, schema
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.acp_messages import ANY, messages
from tests.swarm.harness import Swarm, call, swarm
from tests.waiting import until
from zoea.acp_server.acp_agent import ZoeaAgent
from zoea.acp_server.acp_stdio import serve_client
from zoea.model.enums import Role
from zoea.model.request import Answer, ModelRequest
from zoea.tools import ToolPolicy

MODELS: dict[str, Any] = {
    "initialize": schema.InitializeRequest,
    "authenticate": schema.AuthenticateRequest,
    "providers/list": schema.ListProvidersRequest,
    "providers/set": schema.SetProviderRequest,
    "session/new": schema.NewSessionRequest,
    "session/load": schema.LoadSessionRequest,
    "session/resume": schema.ResumeSessionRequest,
    "session/fork": schema.ForkSessionRequest,
    "session/list": schema.ListSessionsRequest,
    "session/close": schema.CloseSessionRequest,
    "session/delete": schema.DeleteSessionRequest,
    "session/set_mode": schema.SetSessionModeRequest,
    "session/set_config_option": schema.SetSessionConfigOptionSelectRequest,
    "session/prompt": schema.PromptRequest,
    "session/cancel": schema.CancelNotification,
    "mcp/message": schema.MessageMcpRequest,
    "logout": schema.LogoutRequest,
    "providers/disable": schema.DisableProviderRequest,
    "nes/start": schema.StartNesRequest,
    "nes/suggest": schema.SuggestNesRequest,
    "nes/close": schema.CloseNesRequest,
}
NOTICES = {"nes/accept", "nes/reject"} | {
    f"document/did{what}" for what in ("Open", "Change", "Close", "Save", "Focus")
}
"""Notifications of a part of the protocol that Zoea does not offer."""
REQUESTS = st.sampled_from(sorted(MODELS)).flatmap(lambda method: st.tuples(st.just(method), messages(MODELS[method])))
PERMISSIONS = messages(schema.RequestPermissionResponse) | ANY


class _Client:
    """The other end of the connection: writes lines, and keeps what comes by id."""

    def __init__(self, permissions: list[Any]) -> None:
        self.reader = asyncio.StreamReader(limit=2**24)
        self.answers: dict[Any, dict[str, Any]] = {}
        self.sent: list[dict[str, Any]] = []
        self.permissions: Iterator[Any] = itertools.cycle(permissions or [None])
        self.knows_permissions = True
        self._numbers = itertools.count(1)

    def serve(self, agent: ZoeaAgent) -> asyncio.Task[None]:
        """Serve this end by the agent until it is closed."""
        writer: Any = self
        return asyncio.create_task(serve_client(agent, self.reader, writer))

    def send(self, method: str, params: Any, *, is_notification: bool = False) -> int:
        number = next(self._numbers)
        told = {"jsonrpc": "2.0", "method": method, "params": params}
        self._feed(told if is_notification else {**told, "id": number})
        return number

    async def answer(self, number: int) -> dict[str, Any]:
        await until(lambda: number in self.answers)
        return self.answers[number]

    def _feed(self, message: Any) -> None:
        self.reader.feed_data(json.dumps(message).encode() + b"\n")

    # As much of a stream writer as the server needs.

    def write(self, data: bytes) -> None:
        message = json.loads(data)
        if "method" not in message:
            assert message["id"] is None or message["id"] not in self.answers, "answered twice"
            self.sent.append(message)
            self.answers[message["id"]] = message
            return
        self.sent.append(message)
        if "id" in message:
            unknown = {"error": {"code": -32601, "message": "Method not found"}}
            answer = {"result": next(self.permissions)} if self.knows_permissions else unknown
            self._feed({"jsonrpc": "2.0", "id": message["id"], **answer})

    async def drain(self) -> None:
        return None

    def close(self) -> None:
        return None


def _burn(request: ModelRequest) -> Answer:
    """Call a tool that asks, then answer."""
    return Answer(text="Iron.") if request.messages[-1].role is Role.TOOL else Answer(calls=(call("burn"),))


@settings(max_examples=100 if os.environ.get("ZOEA_SOAK") else 6)
@given(st.lists(REQUESTS, min_size=5, max_size=25), st.lists(PERMISSIONS, max_size=3))
def test_all_are_answered_and_the_next_prompt_too(asked: list[tuple[str, Any]], permissions: list[Any]) -> None:
    async def work(folder: Path) -> None:
        async with swarm(folder, _burn, policy=ToolPolicy(ask_destructive=True)) as s:
            client = _Client(permissions)
            agent = ZoeaAgent(s.api, s.path, templates=("default",))
            served = client.serve(agent)
            made = await client.answer(client.send("session/new", {"cwd": str(folder), "mcpServers": []}))
            session = made["result"]["sessionId"]
            numbers = []
            for method, params in asked:
                if isinstance(params, dict) and "sessionId" in params:
                    params["sessionId"] = session
                if method == "session/cancel":
                    client.send(method, params, is_notification=True)
                else:
                    numbers.append(client.send(method, params))
            for number in numbers:
                await until(partial(_is_answered, s, client, session, number))
            client.permissions = itertools.repeat({"outcome": {"outcome": "selected", "optionId": "once"}})
            again = client.send("session/load", {"cwd": str(folder), "mcpServers": [], "sessionId": session})
            assert "result" in await client.answer(again)
            prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "What is there?"}]}
            said = await client.answer(client.send("session/prompt", prompt))
            assert said["result"]["stopReason"] == "end_turn"
            client.reader.feed_eof()
            await served

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(work(Path(folder)))


def _is_answered(s: Swarm, client: _Client, session: str, number: int) -> bool:
    """Return whether a request is answered.

    Cancel a prompt whose mysis asks, because a strange answer leaves that open.
    """
    if any(row.approvals for row in s.commander.swarm.live_view.rows()):
        client.send("session/cancel", {"sessionId": session}, is_notification=True)
    return number in client.answers


@pytest.mark.parametrize("when", ["mysis", "send", "withdraw"])
async def test_a_prompt_that_is_cancelled_while_it_is_delivered_is_cancelled(tmp_path: Path, when: str) -> None:
    class Cancelling:
        """The swarm of an editor that cancels at one moment."""

        def __getattr__(self, name: str) -> Any:
            async def work(*arguments: Any, **named: Any) -> Any:
                if name == "withdraw" and when == "withdraw":
                    await s.commander.hold(False)
                    await until(is_read)
                answer = await getattr(s.api, name)(*arguments, **named)
                if name == {"withdraw": "send"}.get(when, when) and agent._sessions[session].running is not None:
                    await agent.cancel(session_id=session)
                return answer

            return getattr(s.api, name) if name == "changes" else work

    async def is_read() -> bool:
        return bool(await s.value("SELECT count(*) FROM delivery WHERE state <> 'pending'"))

    async with swarm(tmp_path, lambda _: Answer(text="Iron.")) as s:
        api: Any = Cancelling()
        agent, client = ZoeaAgent(api, s.path, templates=("default",)), _Client([])
        served = client.serve(agent)
        made = await client.answer(client.send("session/new", {"cwd": str(tmp_path), "mcpServers": []}))
        session = made["result"]["sessionId"]
        await s.commander.hold(when == "withdraw")
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "What is there?"}]}
        said = await client.answer(client.send("session/prompt", prompt))
        assert said.get("result") == {"stopReason": "cancelled"}, said
        assert await s.value("SELECT count(*) FROM turn WHERE outcome IS NULL") == 0
        assert await s.value("SELECT count(*) FROM message") == (when != "mysis")
        client.reader.feed_eof()
        await served


@pytest.mark.parametrize("session_id", ["mysis-01", "mysis-\u0661", "mysis-1 ", "mysis-+1", "MYSIS-1"])
async def test_a_session_has_one_name(tmp_path: Path, session_id: str) -> None:
    async with swarm(tmp_path, _burn) as s:
        await s.commander.create("alpha", start=False)
        agent = ZoeaAgent(s.api, s.path, templates=("default",))
        with pytest.raises(RequestError, match="there is no session"):
            await agent.resume_session(str(tmp_path), session_id)


@pytest.mark.parametrize(
    "params", [{"sessionId": f"mysis-{'9' * 5_000}"}, {"sessionId": "mysis-1", "cwd": "/" + "x" * 5_000}]
)
async def test_long_numbers_and_paths_are_named_and_no_internal_errors(
    tmp_path: Path, params: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with swarm(tmp_path, _burn) as s:
        agent, client = ZoeaAgent(s.api, s.path, templates=("default",)), _Client([])
        served = client.serve(agent)
        for method in ("session/load", "session/new"):
            said = await client.answer(client.send(method, {"cwd": str(tmp_path), "mcpServers": [], **params}))
            assert said.get("error", {}).get("message") != "Internal error"
        client.reader.feed_eof()
        await served
    assert not caplog.records
