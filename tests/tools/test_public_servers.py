"""Public MCP servers work unmodified: over stdio from the package index, over streamable HTTP from the SDK."""

# ruff: noqa: E501  a refusal stands on one line, as its server sends it

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp_types import ToolAnnotations

from tests.fakes.mcp_sessions import SessionServer
from tests.fakes.toolboxes import asked, meta, with_catalogue
from tests.tools.conftest import Opener
from tests.waiting import until
from zoea.tools import Toolbox, ToolPolicy, UpstreamConfig
from zoea.tools.upstream.session import CLOSE_S

pytestmark = pytest.mark.usefixtures("forked_programs")


def _module(name: str) -> UpstreamConfig:
    return UpstreamConfig(name.rpartition("_")[2], command=sys.executable, args=("-m", name))


async def test_mcp_server_time_tells_the_time(open_box: Opener) -> None:
    session = open_box(_module("mcp_server_time")).session(1, "alpha", "")
    names = {tool.name for tool in (await session.catalogue()).tools}
    assert names == {"get_current_time", "convert_time"}
    result = await session.call(asked("get_current_time", timezone="Europe/Berlin"), meta=meta())
    assert json.loads(result.content)["timezone"] == "Europe/Berlin"


async def test_schema_errors_come_from_the_server_and_name_the_field(open_box: Opener) -> None:
    session = await with_catalogue(open_box(_module("mcp_server_time")).session(1, "alpha", ""))
    result = await session.call(asked("get_current_time"), meta=meta())
    assert result.is_error
    assert "timezone" in result.content


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "new.txt").write_text("new")
    return folder


async def test_mcp_server_git_reads_a_repository_and_its_destructive_tool_asks(
    open_box: Opener, repository: Path
) -> None:
    session = open_box(_module("mcp_server_git")).session(1, "alpha", "")
    catalogue = await session.catalogue()
    assert {tool.name for tool in catalogue.tools if tool.asks} == {"git_reset"}
    status = catalogue.find("git_status")
    assert status is not None
    assert status.read_only
    result = await session.call(asked("git_status", repo_path=str(repository)), meta=meta())
    assert "new.txt" in result.content


@pytest.fixture
def http_peer() -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.mcp_http"], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    assert process.stdout is not None
    port = process.stdout.readline().strip()
    yield process, f"http://127.0.0.1:{port}/mcp"
    process.kill()
    process.wait(5)
    process.stdout.close()


Peer = tuple[subprocess.Popen[str], str]


async def test_a_streamable_http_server_serves_calls_that_overlap(open_box: Opener, http_peer: Peer) -> None:
    session = open_box(UpstreamConfig("peer", url=http_peer[1])).session(1, "alpha", "")
    assert {tool.name for tool in (await session.catalogue()).tools} >= {"echo", "sleep", "write"}
    results = await asyncio.gather(*(session.call(asked("sleep", seconds=1.0), meta=meta()) for _ in range(4)))
    spans = [json.loads(result.content) for result in results]
    assert max(span["begun"] for span in spans) < min(span["ended"] for span in spans)


async def test_headers_go_out_with_every_request(open_box: Opener, http_peer: Peer) -> None:
    config = UpstreamConfig("peer", url=http_peer[1], headers={"X-Token": "canary-header"})
    session = await with_catalogue(open_box(config).session(1, "alpha", ""))
    assert (await session.call(asked("header", name="x-token"), meta=meta())).content == "canary-header"


async def test_a_cancelled_http_call_is_cancelled_at_the_server(open_box: Opener, http_peer: Peer) -> None:
    process, url = http_peer
    session = await with_catalogue(open_box(UpstreamConfig("peer", url=url)).session(1, "alpha", ""))
    call = asyncio.create_task(session.call(asked("sleep", seconds=30), meta=meta()))
    assert process.stdout is not None
    assert (await asyncio.to_thread(process.stdout.readline)).strip() == "begun"
    assert not call.done()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await asyncio.to_thread(process.stdout.readline)).strip() == "cancelled"


async def test_an_http_server_says_that_its_tools_changed(open_box: Opener, http_peer: Peer) -> None:
    box = open_box(UpstreamConfig("peer", url=http_peer[1]))
    session = await with_catalogue(box.session(1, "alpha", ""))
    await session.call(asked("grow"), meta=meta())
    await until(lambda: any(tool.name == "grown" for tool in box.upstream("peer").tools))


async def test_a_server_that_is_gone_gives_errors_that_say_nothing_was_done(open_box: Opener, http_peer: Peer) -> None:
    process, url = http_peer
    box = open_box(UpstreamConfig("peer", url=url, backoff=0.02, retries=1))
    session = await with_catalogue(box.session(1, "alpha", ""))
    process.kill()
    process.wait(5)
    result = await session.call(asked("write", text="x"), meta=meta())
    assert result.is_error
    await until(lambda: box.status()[0].state == "down")
    again = await session.call(asked("write", text="x"), meta=meta())
    assert not again.is_unknown
    assert "The call was not carried out" in again.content


async def test_a_forgotten_session_is_reopened_and_the_call_repeated(open_box: Opener) -> None:
    with SessionServer() as server:
        session = await with_catalogue(
            open_box(UpstreamConfig("sessions", url=server.url, backoff=0.02)).session(1, "alpha", "")
        )
        server.sessions.clear()
        result = await session.call(asked("write", text="once"), meta=meta())
        assert result.content == "once"
        assert len(server.calls) == 1
        assert server.initialized == 2


@pytest.mark.parametrize(
    "fault",
    [
        "json_400",
        "bare_404",
        # diegosouzapw/OmniRoute#5169
        (400, '{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Unknown Mcp-Session-Id header"},"id":null}'),
        (401, "Unauthorized: Session not found"),  # modelcontextprotocol/rust-sdk#689
        (503, '{"error":"unknown mcp-session-id"}'),  # markmhendrickson/neotoma#1923
        (404, '{"error":"Session not found"}'),  # modelcontextprotocol/python-sdk#1676
        (404, '{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}'),  # DAWNCR0W/affine-mcp-server#306
        (400, "Invalid session ID"),  # mark3labs/mcp-go#689
        (400, '{"message":"The session does not exist"}'),  # ansible/aap-mcp-server#111
        (410, "session expired"),
        (403, "Forbidden: invalid session ID"),  # mastra-ai/mastra#10660
        (422, "Unexpected message, expect initialize request"),  # BatterWorks/Hatchdoor#213
        (500, '{"error":"Error POSTing to endpoint (HTTP 400): {\\"error\\":{\\"code\\":-32000,\\"message\\":\\"Bad Request: No valid session ID provided\\"}}"}'),  # punkpeye/fastmcp#121
        (400, '{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}'),  # anthropics/claude-code#55970
        (404, '{"jsonrpc":"2.0","error":{"code":-32001,"message":"Not Found: MCP session is unknown or expired on this API instance."},"id":null}'),  # markmhendrickson/neotoma#2312
        (404, '{"jsonrpc":"2.0","id":1}'),  # helidon-io/helidon-mcp#152
        (400, '{"jsonrpc":"2.0","id":null,"error":{"code":-32002,"message":"Session expired","data":{"reason":"session_expired"}}}'),  # KeeperHub/keeperhub#1278
        (200, '{"jsonrpc":"2.0","id":null,"error":{"code":-32002,"message":"Server not initialized"}}'),  # zoedsoupe/anubis-mcp#89
        (200, '{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"Session not found"}}'),  # ansible/aap-mcp-server#111
        (200, '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}'),  # anthropics/claude-code#59442
        (200, '{"jsonrpc":"2.0","id":null,"error":{"code":-32009,"message":"Streamable HTTP error: Error POSTing to endpoint: {\\"error\\":{\\"code\\":-32600,\\"message\\":\\"Session not found\\"}}"}}'),  # agentic-community/mcp-gateway-registry#960
        (200, '{"jsonrpc":"2.0","id":null,"error":{"code":32600,"message":"Session terminated"}}'),  # NousResearch/hermes-agent#18069
        (200, '{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"mcp session 0b5cf3d4-93f8-4d5e-8d0a-3f1f4b5c6d7e is not registered"}}'),  # NousResearch/hermes-agent#93061
        (200, '{"jsonrpc":"2.0","id":null,"error":{"code":0,"message":"method \\"tools/call\\" is invalid during session initialization"}}'),  # xpzouying/xiaohongshu-mcp#308
        (200, '{"error":"Session not found"}'),  # anomalyco/opencode#25135
        (200, "Session not found"),
    ],
)  # fmt: skip
async def test_other_spellings_of_a_lost_session_are_understood(open_box: Opener, fault: str | tuple[int, str]) -> None:
    with SessionServer() as server:
        session = await with_catalogue(
            open_box(UpstreamConfig("sessions", url=server.url, backoff=0.02)).session(1, "alpha", "")
        )
        server.fault = fault
        result = await session.call(asked("write", text="twice"), meta=meta())
        assert result.content == "twice"
        assert server.initialized == 2


@pytest.mark.parametrize(
    ("error", "argument"),
    [
        ({"code": -32602, "message": "Session 7 not found"}, "session_id"),
        ({"code": -32001, "message": "Session not found"}, "session"),
        ({"code": -32603, "message": "Session expired, log in again"}, "text"),
        ({"code": -32603, "message": "The browser session no longer exists"}, "text"),
        ({"code": -32603, "message": "Language server not initialized"}, "text"),
        ({"code": -32602, "message": "Invalid request parameters"}, "text"),
        ({"code": -32000, "message": "The session is busy"}, "text"),
        ({"code": 1404, "message": "Session not found"}, "text"),
    ],
)
async def test_an_error_about_other_sessions_leaves_that_of_the_protocol(
    open_box: Opener, error: dict[str, Any], argument: str
) -> None:
    with SessionServer() as server:
        session = await with_catalogue(open_box(UpstreamConfig("sessions", url=server.url)).session(1, "alpha", ""))
        server.fault = (200, json.dumps({"jsonrpc": "2.0", "id": None, "error": error}))
        result = await session.call(asked("write", **{argument: "x"}), meta=meta())
        assert result.is_error
        assert error["message"] in result.content
        assert len(server.calls) == 1
        assert server.initialized == 1


async def test_a_connection_that_breaks_under_a_write_leaves_it_unknown_and_the_session_standing(
    open_box: Opener,
) -> None:
    with SessionServer() as server:
        session = await with_catalogue(open_box(UpstreamConfig("sessions", url=server.url)).session(1, "alpha", ""))
        server.fault = "hang_up"
        result = await session.call(asked("write", text="x"), meta=meta())
        assert result.is_unknown
        assert len(server.calls) == 1
        assert (await session.call(asked("write", text="y"), meta=meta())).content == "y"
        assert server.initialized == 1


async def test_a_connection_that_breaks_under_a_read_is_tried_once_more(open_box: Opener) -> None:
    with SessionServer() as server:
        session = await with_catalogue(open_box(UpstreamConfig("sessions", url=server.url)).session(1, "alpha", ""))
        server.fault = "hang_up"
        assert (await session.call(asked("read", text="r"), meta=meta())).content == "r"
        assert len(server.calls) == 2


async def test_an_html_error_page_becomes_its_status(open_box: Opener) -> None:
    with SessionServer() as server:
        session = await with_catalogue(open_box(UpstreamConfig("sessions", url=server.url)).session(1, "alpha", ""))
        server.fault = "html_503"
        result = await session.call(asked("write", text="x"), meta=meta())
        assert "HTTP 503 Service Unavailable" in result.content
        assert "<html>" not in result.content


async def test_an_address_without_a_listener_is_named(open_box: Opener) -> None:
    box = open_box(UpstreamConfig("nobody", url="http://127.0.0.1:9/mcp", backoff=0.02, retries=1))
    began = time.monotonic()
    await box.settled()
    assert time.monotonic() - began < 15  # long before `start_timeout`
    assert box.status()[0].last_error == "cannot connect: nothing listens at its address"


async def test_a_server_of_this_process_is_an_upstream_too(open_box: Opener) -> None:
    server = MCPServer("inside", log_level="CRITICAL")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def double(number: int) -> int:
        return 2 * number

    box = open_box(UpstreamConfig("inside", server=server), policies=lambda template: ToolPolicy())
    session = await with_catalogue(box.session(1, "alpha", ""))
    assert (await session.call(asked("double", number=21), meta=meta())).content == "42"
    assert box.status()[0].transport == "in process"
    assert await box.upstream("inside").ping() >= 0


async def test_a_server_that_does_not_let_go_cannot_hold_up_the_shutdown() -> None:
    with SessionServer() as server:
        server.clings = True
        box = Toolbox([UpstreamConfig("sessions", url=server.url)], logs=Path("logs"))
        box.open()
        await box.session(1, "alpha", "").catalogue()
        began = time.monotonic()
        await box.close()
        assert time.monotonic() - began < CLOSE_S  # by the bound of its farewell, before that of the whole link
        assert server.farewells == 1
