"""One contract for all doors: the Commander, the socket, MCP in process and MCP over the socket.

Another for the doors to everyone's memory: a mysis's own tools where its template
opens them, MCP in process and over the socket.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client as SdkClient
from mcp.server import Server

from tests.fakes.mcp_client import LocalSwarmClient, answering_swarm, said
from tests.fakes.swarm import FakeSwarm
from tests.fakes.toolboxes import meta
from tests.mcp_server.door_contract import (
    Door,
    Found,
    Heard,
    ReadingContract,
    ReadingDoor,
    Refused,
    SpeakingContract,
    state_of,
)
from zoea.ipc.remote_swarm import RemoteSwarm
from zoea.ipc.socket_server import SocketServer
from zoea.mcp_server.memory_readers import MemoryReaders
from zoea.mcp_server.swarm_client import SocketSwarmClient, SwarmClient
from zoea.mcp_server.tokens import McpClient, TokenScope
from zoea.mcp_server.zoea_server import server_of
from zoea.model.errors import ZoeaError
from zoea.model.swarm_api import SwarmApi
from zoea.process.lock import OwnerLock
from zoea.runtime.running_swarm import RunningSwarm
from zoea.settings.paths import Places
from zoea.swarm import Commander
from zoea.tools import SearchScope, ToolPolicy
from zoea.tools.builtin.handlers import DeskTools

CLIENT = McpClient("codex", TokenScope.COMMAND)

Opened = Callable[[SwarmClient, Path], Server[Any]]


class ApiDoor:
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


class McpServerSupervisor:
    """The tools of the MCP server, through the SDK's own client."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server

    async def states(self) -> dict[str, str]:
        return {row["name"]: row["state"] for row in (await self._call("zoea_list_myses"))["myses"]}

    async def send(self, to: str, text: str) -> Heard:
        return _heard(await self._call("zoea_send_message", to=to, text=text))

    async def broadcast(self, text: str) -> Heard:
        return _heard(await self._call("zoea_broadcast", text=text))

    async def wait(self, mysis: str, seconds: float) -> str:
        answer = await self._call("zoea_wait", mysis=mysis, seconds=seconds)
        assert answer["is_done"]
        return str(answer["mysis"]["state"])

    async def find(self, tool: str, /, **arguments: Any) -> Found:
        return _page(await self._call(tool, **arguments))

    async def read(self, **arguments: Any) -> Found:
        answer = await self._call("zoea_read_memory", **arguments)
        return Found(tuple(answer["calls"]), answer["text"], answer.get("next_offset"))

    async def _call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        async with SdkClient(self._server) as client:
            result = await client.call_tool(name, arguments)
        if result.is_error:
            raise Refused(said(result))
        assert isinstance(result.structured_content, dict)
        return result.structured_content


class DeskDoor:
    """The tools of a mysis whose template lets it search the swarm."""

    def __init__(self, swarm: Commander) -> None:
        self._tools = DeskTools(swarm.desk)

    async def find(self, tool: str, /, **arguments: Any) -> Found:
        return _page(await self._call(tool, **arguments))

    async def read(self, **arguments: Any) -> Found:
        answer = await self._call("zoea_read_memory", **arguments)
        text = answer[arguments.get("part", "content")]
        return Found(tuple(answer.get("calls", ())), text, answer["next_offset"])

    async def _call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        policy = ToolPolicy(search=SearchScope.SWARM)
        result = await self._tools.call(name, arguments, meta("alpha", mysis_id=1), policy)
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
def opened() -> Iterator[Opened]:
    """Makes servers, and closes what they read with."""
    libraries: list[MemoryReaders] = []

    def make(reach: SwarmClient, database: Path) -> Server[Any]:
        libraries.append(MemoryReaders(database))
        return server_of(reach, libraries[-1], lambda _: CLIENT)

    yield make
    for readers in libraries:
        readers.close()


class TestCommander(SpeakingContract):
    @pytest.fixture
    async def swarm(self, runtime: Path, tmp_path: Path) -> AsyncIterator[SwarmApi]:
        async with answering_swarm(runtime, tmp_path) as swarm:
            yield swarm

    @pytest.fixture
    def door(self, swarm: SwarmApi) -> Door:
        return ApiDoor(swarm)


class TestSocket(TestCommander):
    @pytest.fixture
    async def door(self, swarm: SwarmApi, runtime: Path) -> AsyncIterator[Door]:
        server = SocketServer(swarm, runtime / "s.sock")
        await server.open()
        async with await RemoteSwarm.connect(server.path) as remote:
            yield ApiDoor(remote)
        await server.close()


class TestDesk(ReadingContract):
    @pytest.fixture
    async def swarm(self, runtime: Path, tmp_path: Path) -> AsyncIterator[SwarmApi]:
        async with answering_swarm(runtime, tmp_path) as swarm:
            yield swarm

    @pytest.fixture
    def reading(self, swarm: SwarmApi) -> ReadingDoor:
        assert isinstance(swarm, RunningSwarm)
        return DeskDoor(swarm.commander)


class TestMcp(TestCommander, ReadingContract):
    @pytest.fixture
    def door(self, swarm: SwarmApi, opened: Opened, tmp_path: Path) -> McpServerSupervisor:
        return McpServerSupervisor(opened(LocalSwarmClient(swarm), tmp_path / "data" / "zoea.db"))

    @pytest.fixture
    def reading(self, door: McpServerSupervisor) -> ReadingDoor:
        return door


class TestMcpOverTheSocket(TestCommander, ReadingContract):
    @pytest.fixture
    def reading(self, door: McpServerSupervisor) -> ReadingDoor:
        return door

    @pytest.fixture
    async def door(
        self, swarm: SwarmApi, opened: Opened, runtime: Path, tmp_path: Path
    ) -> AsyncIterator[McpServerSupervisor]:
        where = Places(data=tmp_path / "data", config=tmp_path / "config", runtime=runtime)
        server = SocketServer(swarm, where.socket)
        await server.open()
        reach = SocketSwarmClient(where)
        with OwnerLock(where.data, where.socket):
            yield McpServerSupervisor(opened(reach, where.database))
            await reach.close()
        await server.close()


class TestWithoutAnOwner:
    """What is stored is read; what commands is refused in so many words."""

    @pytest.fixture
    async def where(self, runtime: Path, tmp_path: Path) -> Places:
        async with answering_swarm(runtime, tmp_path) as swarm:
            await swarm.create("alpha")
            await swarm.send("alpha", "The vein of beryllium")
            await swarm.wait("alpha", timeout_s=30)
        return Places(data=tmp_path / "data", config=tmp_path / "config", runtime=runtime)

    async def test_the_memory_answers_and_commands_do_not(self, where: Places, opened: Opened) -> None:
        door = McpServerSupervisor(opened(SocketSwarmClient(where), where.database))
        assert await door.states() == {"alpha": "idle"}
        found = await door._call("zoea_search_messages", query="beryllium", role="user")
        assert [row["mysis"] for row in found["results"]] == ["alpha"]
        for name, arguments in {
            "zoea_send_message": {"to": "alpha", "text": "x"},
            "zoea_broadcast": {"text": "x"},
            "zoea_wait": {"mysis": "alpha"},
        }.items():
            with pytest.raises(Refused, match="no running swarm"):
                await door._call(name, **arguments)

    async def test_nothing_stored_is_nothing_found(self, opened: Opened, tmp_path: Path, runtime: Path) -> None:
        where = Places(data=tmp_path / "data", config=tmp_path / "config", runtime=runtime)
        where.make_data()
        server = opened(SocketSwarmClient(where), where.database)
        assert await McpServerSupervisor(server).states() == {}
        with pytest.raises(Refused, match="zoea run"):
            await McpServerSupervisor(server)._call("zoea_search_messages", query="x")
        async with SdkClient(server) as client:
            assert [str(one.uri) for one in (await client.list_resources()).resources] == ["zoea://broadcasts"]
            (contents,) = (await client.read_resource("zoea://broadcasts")).contents
        assert getattr(contents, "text", "") == "[]"

    async def test_a_swarm_that_ends_and_starts_again_is_found_again(self, tmp_path: Path, runtime: Path) -> None:
        where = Places(data=tmp_path / "data", config=tmp_path / "config", runtime=runtime)
        where.make_data()
        reach = SocketSwarmClient(where)
        for times in (1, 2):
            swarm = FakeSwarm()
            await swarm.create("alpha")
            server = SocketServer(swarm, where.socket)
            await server.open()
            with OwnerLock(where.data, where.socket):
                api = await reach.swarm(CLIENT)
                await api.send("alpha", f"for the {times}. time", sender=CLIENT.sender)
            assert swarm.said == [(CLIENT.sender, "alpha", f"for the {times}. time")]
            await server.close()
        await reach.close()
