"""`zoea mcp` as clients start it: over stdio, and over HTTP in a separate process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from mcp import StdioServerParameters
from mcp.client import Client

from tests.fakes.mcp_client import NOW, answering_swarm, let_in, said, structured
from zoea.ipc.socket_server import SocketServer
from zoea.mcp_server.server_process import serve_http
from zoea.mcp_server.tokens import Tokens, TokenScope
from zoea.process.lock import OwnerLock
from zoea.settings.credentials import Credentials
from zoea.settings.paths import Places

pytestmark = pytest.mark.usefixtures("forked_programs")

NOISY = Path(__file__).parents[1] / "fakes" / "mcp_noisy.py"


@pytest.fixture
async def where(runtime: Path, tmp_path: Path) -> Places:
    """The test's own workspace, with a mysis that has answered."""
    async with answering_swarm(runtime, tmp_path) as swarm:
        await swarm.create("alpha")
        await swarm.send("alpha", "The vein of beryllium")
        await swarm.wait("alpha", timeout_s=30)
    return Places(data=tmp_path / "data", config=tmp_path / "config", runtime=runtime)


def stdio(*arguments: str) -> StdioServerParameters:
    return StdioServerParameters(command=sys.executable, args=list(arguments), env=dict(os.environ))


async def test_stdout_is_the_protocols_alone(where: Places) -> None:
    async with Client(stdio(str(NOISY))) as client:
        for _ in range(3):
            found = structured(await client.call_tool("zoea_search_messages", {"query": "beryllium", "role": "user"}))
    assert [row["mysis"] for row in found["results"]] == ["alpha"]
    log = (where.data / "mcp.log").read_text(encoding="utf-8")
    noises = ("of python", "of the descriptor", "on stderr", "of a child")
    assert {noise: log.count(f"noise {noise}") for noise in noises} == dict.fromkeys(noises, 3)
    assert "complaint of a child" in log


async def test_the_command_serves_its_client_beside_a_swarm_and_after_it(
    where: Places, runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    command = stdio("-m", "zoea", "mcp", "--as", "claude", "--scope", "command")
    async with Client(command) as client:
        async with answering_swarm(runtime, tmp_path) as swarm:
            server = SocketServer(swarm, where.socket)
            await server.open()
            with OwnerLock(where.data, where.socket):
                await swarm.start("alpha")
                structured(await client.call_tool("zoea_send_message", {"to": "alpha", "text": "From outside"}))
                assert structured(await client.call_tool("zoea_wait", {"mysis": "alpha"}))["is_done"]
            await server.close()
        found = structured(await client.call_tool("zoea_search_messages", {"query": "From outside", "role": "user"}))
        refused = await client.call_tool("zoea_broadcast", {"text": "x"})
    assert [row["sender"] for row in found["results"]] == ["claude"]
    assert "no running swarm" in said(refused)


async def test_a_client_that_takes_no_more_answers_ends_its_server_without_a_traceback(where: Places) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "zoea", "mcp"), stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    process.stdin.write(json.dumps(begin).encode() + b"\n")
    await process.stdout.readline()
    process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]  # asyncio offers no other way
    while process.returncode is None:
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}\n')
        await asyncio.wait({asyncio.create_task(process.wait())}, timeout=0.2)
    assert process.stderr is not None
    assert (process.returncode, await process.stderr.read()) == (0, b"")


async def test_http_is_served_without_an_owner_until_told_to_end(where: Places) -> None:
    lines: asyncio.Queue[str] = asyncio.Queue()
    serving = asyncio.create_task(serve_http(where, host="127.0.0.1", port=0, say=lines.put_nowait))
    async with asyncio.timeout(20):
        address, advice = await lines.get(), await lines.get()
    assert "There is no token yet" in advice
    token = Tokens(Credentials(where.credentials)).new("claude", TokenScope.READ, NOW)
    async with let_in(address.rpartition(" ")[2], token) as client:
        assert not structured(await client.call_tool("zoea_list_myses", {}))["is_running"]
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(20):
        await serving
