"""One contract for all fronts: the Commander, the socket, MCP in process and MCP over the socket.

Another for the fronts to everyone's memory: a mysis's own tools where its template
opens them, MCP in process and over the socket.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client as SdkClient
from mcp.server import Server
from msgspec.structs import replace

from tests.fakes.mcp_client import LocalSwarmClient, answering_swarm, said
from tests.fakes.swarm import FakeSwarm
from tests.fakes.toolboxes import meta
from tests.mcp_server.front_contract import (
    Found,
    Front,
    Heard,
    ReadingContract,
    ReadingFront,
    Refused,
    SpeakingContract,
    state_of,
)
from zoea.ipc.remote_swarm import RemoteSwarm
from zoea.ipc.socket_server import SocketServer
from zoea.mcp_server.factory import build_zoea_server, open_memories
from zoea.mcp_server.swarm_client import SocketSwarmClient, SwarmClient
from zoea.mcp_server.tokens import McpClient, TokenScope
from zoea.model.errors import ZoeaError
from zoea.model.swarm_api import SwarmApi
from zoea.process.lock import OwnerLock
from zoea.runtime.compose import RunningSwarm
from zoea.settings.paths import Places
from zoea.store.memory_reader import MemoryReader
from zoea.swarm.commander import Commander
from zoea.tools import SearchScope, ToolPolicy
from zoea.tools.builtin.mysis_tools import MysisTools

CLIENT = McpClient("codex", TokenScope.COMMAND)

Opened = Callable[[SwarmClient, Path], Server[Any]]


class ApiFront:
    """`SwarmApi` itself."""

    def __init__(self, api: SwarmApi) -> None:
        self._api = api

    async def states(self) -> dict[str, str]:
        return {view.name: state_of(view) for view in (await self._api.view()).myses}

    async def send(self, to: str, text: str) -> Heard:
        return Heard.of(await self._told(self._api.send(to, text)))

    async def broadcast(self, text: str) -> Heard:
        return Heard.of(await self._told(self._api.broadcast(text)))

    async def wait(self, mysis: str, seconds: float) -> str:
        return state_of(await self._told(self._api.wait(mysis, timeout_s=seconds)))

    async def _told(self, asked: Any) -> Any:
        try:
            return await asked
        except ZoeaError as error:
            raise Refused(error.what) from error


class McpFront:
    """The tools of the MCP server, through the SDK's own client."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server

    async def states(self) -> dict[str, str]:
        return {row["name"]: row["state"] for row in (await self.call("zoea_list_myses"))["myses"]}

    async def send(self, to: str, text: str) -> Heard:
        return _heard(await self.call("zoea_send_message", to=to, text=text))

    async def broadcast(self, text: str) -> Heard:
        return _heard(await self.call("zoea_broadcast", text=text))

    async def wait(self, mysis: str, seconds: float) -> str:
        answer = await self.call("zoea_wait", mysis=mysis, seconds=seconds)
        assert answer["is_done"]
        return str(answer["mysis"]["state"])

    async def find(self, tool: str, /, **arguments: Any) -> Found:
        return _page(await self.call(tool, **arguments))

    async def read(self, **arguments: Any) -> Found:
        answer = await self.call("zoea_read_memory", **arguments)
        return Found(tuple(answer["calls"]), answer["text"], answer.get("next_offset"))

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        async with SdkClient(self._server) as client:
            result = await client.call_tool(name, arguments)
        if result.is_error:
            raise Refused(said(result))
        assert isinstance(result.structured_content, dict)
        return result.structured_content


class MysisToolsFront:
    """The tools of a mysis that may search the swarm."""

    def __init__(self, swarm: Commander) -> None:
        self._tools = MysisTools(swarm.builtin_backend)

    async def find(self, tool: str, /, **arguments: Any) -> Found:
        return _page(await self.call(tool, **arguments))

    async def read(self, **arguments: Any) -> Found:
        answer = await self.call("zoea_read_memory", **arguments)
        text = answer[arguments.get("part", "content")]
        return Found(tuple(answer.get("calls", ())), text, answer["next_offset"])

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        policy = ToolPolicy(search=SearchScope.SWARM)
        call = replace(meta("alpha", mysis_id=1), call_id=1_000_000)  # stored after all others, as a real call is
        result = await self._tools.call(name, arguments, call, policy)
        if result.is_error:
            raise Refused(result.content)
        answer = json.loads(result.content)
        assert isinstance(answer, dict)
        return answer


def _page(answer: dict[str, Any]) -> Found:
    return Found(tuple(answer["results"]), on_from=answer.get("next_before_id"), has_hint="hint" in answer)


def _heard(answer: dict[str, Any]) -> Heard:
    return Heard(answer["delivered"], {line["mysis"]: line["status"] for line in answer["recipients"]})


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    """Makes servers, and closes their memory readers."""
    readers: list[MemoryReader] = []

    def make(swarm_client: SwarmClient, database: Path) -> Server[Any]:
        readers.append(open_memories(database))
        return build_zoea_server(swarm_client, readers[-1], lambda _: CLIENT)

    yield make
    for reader in readers:
        await reader.close()


class TestCommander(SpeakingContract):
    @pytest.fixture
    async def swarm(self, runtime: Path, tmp_path: Path) -> AsyncIterator[SwarmApi]:
        async with answering_swarm(runtime, tmp_path) as swarm:
            yield swarm

    @pytest.fixture
    def front(self, swarm: SwarmApi) -> Front:
        return ApiFront(swarm)


class TestSocket(TestCommander):
    @pytest.fixture
    async def front(self, swarm: SwarmApi, runtime: Path) -> AsyncIterator[Front]:
        server = SocketServer(swarm, runtime / "s.sock")
        await server.open()
        async with await RemoteSwarm.connect(server.path) as remote:
            yield ApiFront(remote)
        await server.close()


class TestMysisTools(ReadingContract):
    @pytest.fixture
    async def swarm(self, runtime: Path, tmp_path: Path) -> AsyncIterator[SwarmApi]:
        async with answering_swarm(runtime, tmp_path) as swarm:
            yield swarm

    @pytest.fixture
    def reading(self, swarm: SwarmApi) -> ReadingFront:
        assert isinstance(swarm, RunningSwarm)
        return MysisToolsFront(swarm.commander)


class TestMcp(TestCommander, ReadingContract):
    @pytest.fixture
    def front(self, swarm: SwarmApi, opened: Opened, tmp_path: Path) -> McpFront:
        return McpFront(opened(LocalSwarmClient(swarm), tmp_path / "data" / "zoea.db"))

    @pytest.fixture
    def reading(self, front: McpFront) -> ReadingFront:
        return front


class TestMcpOverTheSocket(TestCommander, ReadingContract):
    @pytest.fixture
    def reading(self, front: McpFront) -> ReadingFront:
        return front

    @pytest.fixture
    async def front(self, swarm: SwarmApi, opened: Opened, runtime: Path, tmp_path: Path) -> AsyncIterator[McpFront]:
        where = Places(data=tmp_path / "data", config=tmp_path / "config", runtime=runtime)
        server = SocketServer(swarm, where.socket)
        await server.open()
        swarm_client = SocketSwarmClient(where)
        with OwnerLock(where.data, where.socket):
            yield McpFront(opened(swarm_client, where.database))
            await swarm_client.close()
        await server.close()


class TestWithoutAnOwner:
    """Without an owner, reading works and commands are refused."""

    @pytest.fixture
    async def where(self, runtime: Path, tmp_path: Path) -> Places:
        async with answering_swarm(runtime, tmp_path) as swarm:
            await swarm.create("alpha")
            await swarm.send("alpha", "The vein of beryllium")
            await swarm.wait("alpha", timeout_s=30)
        return Places(data=tmp_path / "data", config=tmp_path / "config", runtime=runtime)

    async def test_the_memory_answers_and_commands_do_not(self, where: Places, opened: Opened) -> None:
        front = McpFront(opened(SocketSwarmClient(where), where.database))
        assert await front.states() == {"alpha": "idle"}
        found = await front.call("zoea_search_messages", query="beryllium", role="user")
        assert [row["mysis"] for row in found["results"]] == ["alpha"]
        for name, arguments in {
            "zoea_send_message": {"to": "alpha", "text": "x"},
            "zoea_broadcast": {"text": "x"},
            "zoea_wait": {"mysis": "alpha"},
        }.items():
            with pytest.raises(Refused, match="no running swarm"):
                await front.call(name, **arguments)

    async def test_nothing_stored_is_nothing_found(self, opened: Opened, tmp_path: Path, runtime: Path) -> None:
        where = Places(data=tmp_path / "data", config=tmp_path / "config", runtime=runtime)
        where.make_data()
        server = opened(SocketSwarmClient(where), where.database)
        assert await McpFront(server).states() == {}
        with pytest.raises(Refused, match="zoea run"):
            await McpFront(server).call("zoea_search_messages", query="x")
        async with SdkClient(server) as client:
            assert [str(one.uri) for one in (await client.list_resources()).resources] == ["zoea://broadcasts"]
            (contents,) = (await client.read_resource("zoea://broadcasts")).contents
        assert getattr(contents, "text", "") == "[]"

    async def test_a_swarm_that_ends_and_starts_again_is_found_again(self, tmp_path: Path, runtime: Path) -> None:
        where = Places(data=tmp_path / "data", config=tmp_path / "config", runtime=runtime)
        where.make_data()
        swarm_client = SocketSwarmClient(where)
        for times in (1, 2):
            swarm = FakeSwarm()
            await swarm.create("alpha")
            server = SocketServer(swarm, where.socket)
            await server.open()
            with OwnerLock(where.data, where.socket):
                api = await swarm_client.swarm(CLIENT)
                await api.send("alpha", f"for the {times}. time", sender=CLIENT.sender)
            assert swarm.said == [(CLIENT.sender, "alpha", f"for the {times}. time")]
            await server.close()
        await swarm_client.close()
