"""The owner's supervisor for MCP clients: a process of its own, which ends with the owner and never alone."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from urllib.parse import urlsplit

import httpx
import pytest

from tests.fakes.mcp_client import NOW, answering_swarm, let_in, rpc, structured
from tests.waiting import until
from zoea.ipc.socket_server import SocketServer
from zoea.mcp_server import address as addresses
from zoea.mcp_server import http_transport
from zoea.mcp_server import supervisor as supervisor_module
from zoea.mcp_server.address import Address, ServerOptions, listen
from zoea.mcp_server.supervisor import McpServerSupervisor
from zoea.mcp_server.tokens import Tokens, TokenScope
from zoea.model.errors import OwnerError
from zoea.process.lock import OwnerLock
from zoea.settings.credentials import Credentials
from zoea.settings.paths import Places

pytestmark = pytest.mark.usefixtures("forked_programs")

ANYWHERE = Address("127.0.0.1", 0)


@pytest.fixture
def where(runtime: Path, tmp_path: Path) -> Places:
    made = Places(data=tmp_path / "data", config=tmp_path / "config", runtime=runtime)
    made.make_data()
    return made


@pytest.fixture
async def supervisor(where: Places) -> AsyncIterator[McpServerSupervisor]:
    supervisor = McpServerSupervisor(where, ANYWHERE, level="info")
    yield supervisor
    await supervisor.close()


def serving(where: Places) -> list[int]:
    """The processes that serve the clients of this workspace."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode()
        except OSError:
            continue  # it ended meanwhile
        if "-m\0zoea.mcp_server.server_process" in command and str(where.data) in command:
            found.append(int(folder.name))
    return found


def count_descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def test_clients_read_stored_memories_and_reach_the_swarm(where: Places, runtime: Path, tmp_path: Path) -> None:
    async with answering_swarm(runtime, tmp_path, **{"mcp.http": True, "mcp.port": 0}) as swarm:
        server = SocketServer(swarm, where.socket)
        await server.open()
        token = Tokens(Credentials(where.credentials)).new("codex", TokenScope.COMMAND, NOW)
        with OwnerLock(where.data, where.socket):
            await swarm.create("alpha")
            async with let_in((await swarm.serve_mcp(True)).url, token) as client:
                structured(
                    await client.call_tool("zoea_send_message", {"to": "alpha", "text": "The vein of beryllium"})
                )
                assert structured(await client.call_tool("zoea_wait", {"mysis": "alpha"}))["is_done"]
                sought = {"query": "beryllium", "role": "user"}
                found = structured(await client.call_tool("zoea_search_messages", sought))
        await server.close()
    assert [(row["mysis"], row["sender"]) for row in found["results"]] == [("alpha", "codex")]
    assert serving(where) == []


async def test_it_opens_and_closes_on_request(supervisor: McpServerSupervisor, where: Places) -> None:
    view = await supervisor.serve(True)
    assert (await supervisor.serve(True)).url == view.url
    async with httpx.AsyncClient() as http:
        assert (await http.post(view.url, json=rpc("ping"))).status_code == 401
        assert not (await supervisor.serve(False)).is_on
        with pytest.raises(httpx.ConnectError):
            await http.post(view.url, json=rpc("ping"))
    assert serving(where) == []
    assert (await supervisor.serve(True)).is_on


async def test_a_process_that_was_killed_is_started_again_at_the_same_address(
    supervisor: McpServerSupervisor, where: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "RESTART_S", 0.01)
    view = await supervisor.serve(True)
    (first,) = serving(where)
    os.kill(first, signal.SIGKILL)
    await until(lambda: bool(supervisor.view.problem))
    assert (supervisor.view.url, "ended (code -9)" in supervisor.view.problem) == (view.url, True)
    async with httpx.AsyncClient(timeout=20) as http:
        assert (await http.post(view.url, json=rpc("ping"))).status_code == 401
    await until(lambda: not supervisor.view.problem)
    assert first not in serving(where)


async def test_one_that_is_interrupted_ends_and_is_started_again(
    supervisor: McpServerSupervisor, where: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "RESTART_S", 0.01)
    await supervisor.serve(True)
    (first,) = serving(where)
    os.kill(first, signal.SIGINT)
    await until(lambda: bool(supervisor.view.problem))
    await until(lambda: not supervisor.view.problem)
    assert first not in serving(where)


async def test_a_process_without_heartbeats_is_replaced(
    supervisor: McpServerSupervisor, where: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "RESTART_S", 0.01)
    monkeypatch.setattr(addresses, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(supervisor_module, "SILENCE_S", 1.0)
    view = await supervisor.serve(True)
    (first,) = serving(where)
    os.kill(first, signal.SIGSTOP)
    await until(lambda: bool(supervisor.view.problem))
    assert "sent no heartbeat for 2 s" in supervisor.view.problem
    await until(lambda: not supervisor.view.problem)
    assert first not in serving(where)
    async with httpx.AsyncClient(timeout=20) as http:
        assert (await http.post(view.url, json=rpc("ping"))).status_code == 401


async def test_the_time_in_which_the_owner_was_blocked_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    late, real = 0.0, loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + late)
    said = asyncio.StreamReader()
    lost = asyncio.create_task(
        supervisor_module.wait_for_loss(cast("asyncio.subprocess.Process", SimpleNamespace(stdout=said)))
    )
    for _ in range(4):
        await settled()
        late += supervisor_module.SILENCE_S  # his loop goes on, and the time is up before he has read
        said.feed_data(b"served\n")
        await settled()
        assert not lost.done()
    for _ in range(supervisor_module.MISSES + 1):  # the last word was still read
        late += supervisor_module.SILENCE_S
        await settled()
    assert await lost == "sent no heartbeat for 30 s"


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_that_cannot_be_started_again_is_tried_until_it_can(
    supervisor: McpServerSupervisor, where: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "RESTART_S", 0.01)
    await supervisor.serve(True)
    monkeypatch.setattr(supervisor_module, "_MODULE", "zoea.mcp_server.nowhere")
    os.kill(serving(where)[0], signal.SIGKILL)
    await until(lambda: "nowhere" in where.mcp_log.read_text(encoding="utf-8"))
    assert supervisor.view.problem
    monkeypatch.undo()
    await until(lambda: not supervisor.view.problem)
    assert len(serving(where)) == 1


async def test_it_ends_when_its_owner_ends_or_is_killed(where: Places) -> None:
    """The owner's end of its stdin is all that it holds on to."""
    with closing(listen("127.0.0.1", 0)) as listener:
        errand = ServerOptions.of(where, ANYWHERE, "info", listener)
        owner = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _OWNER, errand.to_json(), str(listener.fileno())),
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(listener.fileno(),),
        )
        assert owner.stdout is not None
        try:
            assert await owner.stdout.readline() == b"served\n"
            assert len(serving(where)) == 1
        finally:
            owner.kill()
            await owner.wait()
        await until(lambda: not serving(where))


_OWNER = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-m", "zoea.mcp_server.server_process", sys.argv[1]], stdin=subprocess.PIPE,
    pass_fds=(int(sys.argv[2]),), start_new_session=True)
child.wait()
"""


async def test_an_address_that_is_taken_is_said_and_harms_nothing(where: Places) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        supervisor = McpServerSupervisor(where, Address("127.0.0.1", port), level="info")
        supervisor.start()
        await until(lambda: bool(supervisor.view.problem))
        assert not supervisor.view.is_on
        assert f"127.0.0.1:{port}" in supervisor.view.problem
        with pytest.raises(OwnerError, match="cannot listen"):
            await supervisor.serve(True)


def test_an_address_is_one_sockets_alone_before_anybody_serves_there() -> None:
    with closing(listen("127.0.0.1", 0)) as first, pytest.raises(OwnerError, match="cannot listen"):
        listen("127.0.0.1", first.getsockname()[1])


@pytest.mark.parametrize("host", ["ü" * 70, "a\0b"], ids=["too long", "a NUL in it"])
def test_a_host_that_can_be_none_is_said(host: str) -> None:
    with pytest.raises(OwnerError, match="cannot listen"):
        listen(host, 0)


async def test_one_that_does_not_start_again_holds_up_no_close(
    supervisor: McpServerSupervisor, where: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closed while the owner gives the process that did not start its time to end."""
    deaf = tmp_path / "deaf"
    deaf.write_text("#!/bin/sh\nexec >&-\necho deaf >&2\nexec sleep 60\n", encoding="utf-8")
    deaf.chmod(0o700)
    monkeypatch.setattr(supervisor_module, "RESTART_S", 0.01)
    monkeypatch.setattr(supervisor_module, "CLOSE_S", 5.0)
    await supervisor.serve(True)
    (first,) = serving(where)
    monkeypatch.setattr(sys, "executable", str(deaf))
    os.kill(first, signal.SIGKILL)
    await until(lambda: "deaf" in where.mcp_log.read_text(encoding="utf-8"))
    async with asyncio.timeout(30):
        await supervisor.serve(False)
    assert not supervisor.view.is_on


async def test_a_process_that_does_not_start_is_said(
    supervisor: McpServerSupervisor, where: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "_MODULE", "zoea.mcp_server.nowhere")
    with pytest.raises(OwnerError, match="did not start"):
        await supervisor.serve(True)
    monkeypatch.undo()
    where.mcp_log.unlink()
    where.mcp_log.mkdir()
    with pytest.raises(OwnerError, match="cannot be started"):
        await supervisor.serve(True)
    assert not supervisor.view.is_on


async def test_one_that_says_nothing_is_not_waited_for(
    supervisor: McpServerSupervisor, where: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "START_TIMEOUT_S", 0.0)
    with pytest.raises(OwnerError, match="did not start"):
        await supervisor.serve(True)
    assert serving(where) == []


async def test_one_that_does_not_end_is_ended(
    supervisor: McpServerSupervisor, where: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    await supervisor.serve(True)
    (process,) = serving(where)
    os.kill(process, signal.SIGSTOP)
    monkeypatch.setattr(supervisor_module, "CLOSE_S", 0.01)
    await supervisor.close()
    assert serving(where) == []


async def test_closing_during_the_start_leaves_no_process(supervisor: McpServerSupervisor, where: Places) -> None:
    supervisor.start()
    await until(lambda: bool(serving(where)))
    await supervisor.close()
    assert (supervisor.view.is_on, serving(where)) == (False, [])


async def test_silent_connections_keep_no_client_out(where: Places, supervisor: McpServerSupervisor) -> None:
    token = Tokens(Credentials(where.credentials)).new("codex", TokenScope.READ, NOW)
    url = (await supervisor.serve(True)).url
    address = urlsplit(url)
    silent = [await asyncio.open_connection(address.hostname, address.port) for _ in range(700)]
    async with let_in(url, token) as client:
        assert (await client.list_tools()).tools
    (process,) = serving(where)
    assert count_descriptors(process) < http_transport.NEW_PER_ADDRESS + 100
    async with asyncio.timeout(20):
        assert await silent[0][0].read() == b""
    for _, writer in silent:
        writer.close()
