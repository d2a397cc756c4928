"""The MCP server over HTTP: tools, resources, scopes and access checks, on one swarm for all tests."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio
from mcp.shared.exceptions import MCPError
from mcp_types import TextResourceContents

from tests.fakes.mcp_client import NOW, LocalSwarmClient, Served, let_in, rpc, said, served_swarm, structured
from tests.fakes.mcp_noise import malformed
from zoea.mcp_server import http_transport
from zoea.mcp_server.client_tools import ClientTools
from zoea.mcp_server.factory import open_memories
from zoea.mcp_server.tokens import McpClient, TokenScope
from zoea.model.errors import UsageError
from zoea.tools.builtin.definitions import CLIENT_TOOLS, COMMANDS

pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON_AND_STREAM = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
HELLO = rpc(
    "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """Three myses: alpha has answered, beta has heard a broadcast, gamma is stopped."""
    async with served_swarm(tmp_path_factory.mktemp("served")) as served:
        for name in ("alpha", "beta", "gamma"):
            await served.swarm.create(name, tags=("north",))
        await served.swarm.send("alpha", "The vein of beryllium lies at p16")
        await served.swarm.broadcast("Everybody: the Station is at s9")
        for name in ("alpha", "beta", "gamma"):
            await served.swarm.wait(name, timeout_s=30)
        await served.swarm.stop("gamma")
        yield served


@pytest_asyncio.fixture(loop_scope="module")
async def http(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(headers=JSON_AND_STREAM, timeout=30.0) as client:
        yield client


async def ask(served: Served, name: str, /, **arguments: Any) -> dict[str, Any]:
    async with let_in(served.url, served.commander) as client:
        return structured(await client.call_tool(name, arguments))


async def refusal(served: Served, name: str, /, **arguments: Any) -> str:
    async with let_in(served.url, served.commander) as client:
        result = await client.call_tool(name, arguments)
    assert result.is_error
    assert result.structured_content is None
    return said(result)


# Tools.


async def test_every_tool_is_listed_with_schemas_annotations_and_words(served: Served) -> None:
    async with let_in(served.url, served.commander) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(listed) == [tool.name for tool in CLIENT_TOOLS]
    for tool in listed.values():
        assert tool.input_schema["additionalProperties"] is False
        assert all("description" in field for field in tool.input_schema["properties"].values())
        assert tool.output_schema is not None
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (tool.name not in COMMANDS)
        assert tool.annotations.destructive_hint is False
        assert tool.description
        assert len(tool.description) < 400


async def test_the_instructions_name_the_memory_and_existing_tools_in_sixty_words(served: Served) -> None:
    async with let_in(served.url, served.commander) as client:
        told = client.instructions or ""
    assert len(told.split()) <= 60
    assert "memory" in told
    named = set(re.findall(r"zoea_\w+", told))
    assert named <= {tool.name for tool in CLIENT_TOOLS}
    assert {"zoea_search_messages", "zoea_read_memory", "zoea_send_message", "zoea_wait"} <= named


async def test_messages_are_found_with_their_place(served: Served) -> None:
    answer = await ask(served, "zoea_search_messages", query="vein of beryllium", role="user")
    (found,) = answer["results"]
    assert (found["mysis"], found["role"], found["source"], found["sender"]) == ("alpha", "user", "direct", "commander")
    assert found["content"] == "The vein of beryllium lies at p16"
    assert found["created_at"].endswith("+00:00")
    read = await ask(served, "zoea_read_memory", id=found["id"])
    assert (read["text"], read["total_chars"], "next_offset" in read) == (found["content"], 33, False)


async def test_a_long_memory_is_read_in_parts(served: Served) -> None:
    await served.swarm.create("longwinded", start=False)
    text = "".join(f"[{number:06}]" for number in range(2000))
    await served.swarm.start("longwinded")
    await served.swarm.send("longwinded", text)
    await served.swarm.wait("longwinded", timeout_s=30)
    (found,) = (await ask(served, "zoea_search_messages", query="[001999]", role="user"))["results"]
    assert found["is_cut"]
    assert len(found["content"]) == 2_000
    parts: list[str] = []
    offset: int | None = 0
    while offset is not None:
        part = await ask(served, "zoea_read_memory", id=found["id"], offset=offset)
        parts.append(part["text"])
        offset = part.get("next_offset")
    assert "".join(parts) == text
    await served.swarm.delete("longwinded")


async def test_a_call_is_found_by_its_arguments_and_a_thought_by_its_words(served: Served) -> None:
    await served.swarm.send("beta", "Who is there")
    await served.swarm.wait("beta", timeout_s=30)
    found = (await ask(served, "zoea_search_messages", query="wolframite", role="assistant"))["results"]
    (call,) = found
    assert (call["mysis"], call["tool"]) == ("beta", "zoea_send_message")
    assert "wolframite" in call["call"]
    read = await ask(served, "zoea_read_memory", id=call["id"])
    assert [one["name"] for one in read["calls"]] == ["zoea_send_message"]
    (thought, *_) = (await ask(served, "zoea_search_reasoning", query="wants it so"))["results"]
    assert "wants it so" in thought["reasoning"]
    part = await ask(served, "zoea_read_memory", id=thought["id"], part="reasoning", max_chars=100)
    assert part["text"] == "The commander wants it so."


async def test_an_answer_stays_short_and_says_how_to_go_on(served: Served) -> None:
    for number in range(8):
        await served.swarm.send("beta", f"{'long ' * 600}{number}")
    await served.swarm.wait("beta", timeout_s=30)
    page = await ask(served, "zoea_search_messages", query="long long", role="user")
    assert len(json.dumps(page, ensure_ascii=False)) <= 12_000
    assert " more, use before_id" in page["hint"]
    assert page["next_before_id"] == page["results"][-1]["id"]
    rest = await ask(
        served, "zoea_search_messages", query="long long", role="user", before_id=page["next_before_id"], max_chars=100
    )
    assert len(page["results"]) + len(rest["results"]) == 8
    ranked = await ask(served, "zoea_search_messages", query="long", match="ranked", role="user")
    assert "smaller limit or max_chars" in ranked["hint"]


async def test_a_search_is_narrowed_and_paged(served: Served) -> None:
    (alpha,) = [view.id for view in (await served.swarm.view()).myses if view.name == "alpha"]
    page = await ask(served, "zoea_search_messages", query="e", limit=1, mysis_id=alpha)
    (first,) = page["results"]
    rest = await ask(served, "zoea_search_messages", query="e", mysis_id=alpha, before_id=page["next_before_id"])
    assert all(one["id"] < first["id"] for one in rest["results"])
    assert {one["mysis"] for one in rest["results"]} == {"alpha"}
    assert (await ask(served, "zoea_search_messages", query="beryllium", until="2001-01-01"))["results"] == []
    ranked = await ask(served, "zoea_search_messages", query="BERYLLIUM vein", match="ranked")
    assert any("beryllium" in one["content"] for one in ranked["results"])


async def test_broadcasts_are_found_once_with_their_sender(served: Served) -> None:
    (found,) = (await ask(served, "zoea_search_broadcasts", query="the Station"))["results"]
    assert (found["sender"], found["content"]) == ("commander", "Everybody: the Station is at s9")


async def test_nothing_found_is_an_empty_list_with_a_hint(served: Served) -> None:
    answer = await ask(served, "zoea_search_reasoning", query="there is no such thought")
    assert answer["results"] == []
    assert "case-sensitive" in answer["hint"]


async def test_the_myses_are_listed_with_their_activity(served: Served) -> None:
    answer = await ask(served, "zoea_list_myses")
    assert answer["is_running"] is True
    states = {one["name"]: one["state"] for one in answer["myses"]}
    assert (states["alpha"], states["gamma"]) == ("running", "stopped")


async def test_messages_of_a_client_have_its_name(served: Served) -> None:
    sent = await ask(served, "zoea_send_message", to="alpha", text="Report your hold")
    assert (sent["delivered"], sent["recipients"][0]["mysis"]) == (1, "alpha")
    waited = await ask(served, "zoea_wait", mysis="alpha", seconds=30)
    assert waited["is_done"]
    read = await ask(served, "zoea_read_memory", id=waited["answer_id"])
    assert (read["role"], read["text"]) == ("assistant", waited["answer"])
    (found,) = (await ask(served, "zoea_search_messages", query="Report your hold", role="user"))["results"]
    assert found["sender"] == "codex"
    said_to_all = await ask(served, "zoea_broadcast", text="Report, all of you")
    assert {line["mysis"]: line["status"] for line in said_to_all["recipients"]}["gamma"] == "skipped"
    (broadcast,) = (await ask(served, "zoea_search_broadcasts", query="Report, all of you"))["results"]
    assert broadcast["sender"] == "codex"


async def test_a_limit_without_an_effect_is_named_to_the_client(served: Served) -> None:
    sent = await ask(served, "zoea_send_message", to="alpha", text="Report", context={"force_p2p": True})
    assert (sent["delivered"], sent["note"]) == (1, "force_p2p is ignored: myses always write to each other directly.")


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("zoea_search_messages", {}, "query is missing"),
        ("zoea_search_messages", {"query": 5}, "query must be text"),
        ("zoea_search_messages", {"query": "q" * 1001}, "query must have at most 1000 characters, not 1001"),
        ("zoea_search_messages", {"query": "q", "limit": 101}, "limit must be from 1 to 100, not 101"),
        ("zoea_search_messages", {"query": "q", "role": "system"}, "role must be one of user, assistant, tool"),
        ("zoea_search_messages", {"query": "q", "match": "regex"}, "match must be one of exact, ranked, not 'regex'"),
        ("zoea_search_messages", {"query": "q", "since": "yesterday"}, "since must be an ISO 8601 time such as"),
        ("zoea_search_messages", {"query": "q", "regex": True}, "regex is not an argument of this tool"),
        ("zoea_search_broadcasts", {"query": "q", "mysis_id": 1}, "mysis_id is not an argument of this tool"),
        ("zoea_read_memory", {}, "id is missing"),
        ("zoea_read_memory", {"id": 10**15}, "there is no memory"),
        ("zoea_send_message", {"to": "alpha"}, "text is missing"),
        ("zoea_send_message", {"to": "nobody", "text": "x"}, "nobody"),
        (
            "zoea_send_message",
            {"to": "gamma", "text": "x"},
            "mysis stopped. the commander must start it first: zoea start gamma",
        ),
        ("zoea_broadcast", {"text": " "}, "text cannot be empty"),
        ("zoea_wait", {"mysis": "nobody"}, "nobody"),
        ("zoea_wait", {"mysis": "alpha", "seconds": 301}, "seconds must be from 1 to 300, not 301"),
        ("zoea_list_myses", {"all": True}, "all is not an argument of this tool"),
    ],
)
async def test_a_refusal_is_an_error_result_that_names_the_field(
    served: Served, name: str, arguments: dict[str, Any], why: str
) -> None:
    assert why in await refusal(served, name, **arguments)


async def test_an_unknown_tool_is_a_protocol_error(served: Served) -> None:
    async with let_in(served.url, served.commander, mode="legacy") as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("zoea_format_disk", {})
    assert caught.value.error.code == -32602
    assert caught.value.error.message == "Unknown tool: zoea_format_disk"


# Resources.


async def test_transcripts_and_broadcasts_are_resources(served: Served) -> None:
    async with let_in(served.url, served.reader) as client:
        uris = [str(one.uri) for one in (await client.list_resources()).resources]
        templates = [one.uri_template for one in (await client.list_resource_templates()).resource_templates]
        (transcript,) = (await client.read_resource("zoea://myses/ALPHA/transcript")).contents
        (broadcasts,) = (await client.read_resource("zoea://broadcasts")).contents
    assert uris[:2] == ["zoea://broadcasts", "zoea://myses/alpha/transcript"]
    assert templates == ["zoea://myses/{name}/transcript"]
    assert isinstance(transcript, TextResourceContents)
    assert "# alpha" in transcript.text
    assert "The vein of beryllium lies at p16" in transcript.text
    assert isinstance(broadcasts, TextResourceContents)
    assert "Everybody: the Station is at s9" in [one["content"] for one in json.loads(broadcasts.text)]


@pytest.mark.parametrize(
    "uri", ["zoea://myses/nobody/transcript", "zoea://myses//transcript", "zoea://nothing", "file:///etc/passwd"]
)
async def test_a_resource_that_is_not_there_is_a_protocol_error(served: Served, uri: str) -> None:
    for mode, code in (("legacy", -32002), ("auto", -32602)):
        async with let_in(served.url, served.reader, mode=mode) as client:
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
        assert caught.value.error.code == code
        assert "not found" in caught.value.error.message


async def test_a_cursor_that_no_list_gave_is_refused(served: Served) -> None:
    async with let_in(served.url, served.reader) as client:
        with pytest.raises(MCPError, match="cursor"):
            await client.list_resources(cursor="somewhere")
        assert (await client.list_resources(cursor="999999")).resources == []


# Scopes and access checks.


async def test_a_reader_sees_no_commands_and_cannot_give_any(served: Served, http: httpx.AsyncClient) -> None:
    async with let_in(served.url, served.reader) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert not names & COMMANDS
    for name in sorted(COMMANDS):
        call = rpc("tools/call", {"name": name, "arguments": {"to": "alpha", "text": "obey the reader"}})
        answered = await http.post(served.url, json=call, headers={"Authorization": f"Bearer {served.reader}"})
        assert answered.status_code == 403
        assert 'error="insufficient_scope"' in answered.headers["www-authenticate"]
        assert 'scope="command"' in answered.headers["www-authenticate"]
    assert (await ask(served, "zoea_search_messages", query="obey the reader"))["results"] == []


async def test_a_reader_in_a_session_is_refused_by_the_tool_as_well(served: Served) -> None:
    """The access check recognises plain calls only; the tool itself decides."""

    memories = open_memories(served.where.database)
    tools = ClientTools(LocalSwarmClient(served.swarm), memories)
    for name in COMMANDS:
        with pytest.raises(UsageError, match="may only read"):
            await tools.call(name, {"to": "alpha", "text": "x"}, McpClient("reader"))
    await memories.close()


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer wrong", "Basic dTpw", "zoea", "bearer zoea_\u00fc"])
async def test_a_missing_or_wrong_token_is_401(served: Served, http: httpx.AsyncClient, header: str | None) -> None:
    headers = {} if header is None else {b"Authorization": header.encode("utf-8")}
    answered = await http.post(served.url, json=HELLO, headers=headers)
    assert answered.status_code == 401
    assert answered.headers["www-authenticate"].startswith('Bearer realm="zoea"')
    assert "Traceback" not in answered.text


async def test_a_revoked_token_is_401_in_the_middle_of_a_session(served: Served) -> None:
    token = served.tokens.new("shortlived", TokenScope.READ, NOW)
    async with let_in(served.url, token, mode="legacy") as client:
        structured(await client.call_tool("zoea_list_myses", {}))
        served.tokens.revoke("shortlived")
        with pytest.raises(MCPError):
            await client.call_tool("zoea_list_myses", {})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost.evil.example.com"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Host": "evil.example.com"}, 403),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Host": "localhost:9632"}, 200),
        ({"Host": "[::1]:9632"}, 200),
        ({}, 200),
    ],
)
async def test_a_foreign_page_or_name_is_403(
    served: Served, http: httpx.AsyncClient, headers: dict[str, str], status: int
) -> None:
    token = {"Authorization": f"Bearer {served.reader}"}
    answered = await http.post(served.url, json=HELLO, headers={**headers, **token})
    assert answered.status_code == status


async def test_a_session_belongs_to_the_client_that_opened_it(served: Served, http: httpx.AsyncClient) -> None:
    opened = await http.post(served.url, json=HELLO, headers={"Authorization": f"Bearer {served.reader}"})
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "Mcp-Protocol-Version": "2025-11-25"}
    for token, status in ((served.reader, 200), (served.commander, 404)):
        headers = {**session, "Authorization": f"Bearer {token}"}
        assert (await http.post(served.url, json=rpc("ping"), headers=headers)).status_code == status


async def test_other_paths_hold_nothing(served: Served, http: httpx.AsyncClient) -> None:
    for path in ("/.well-known/oauth-protected-resource", "/mcp/", "/"):
        assert (await http.get(served.url.replace("/mcp", path))).status_code == 404


async def test_a_new_session_of_a_client_ends_only_its_own_oldest_session(
    served: Served, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_transport, "PER_CLIENT", 2)
    greedy = {"Authorization": f"Bearer {served.tokens.new('greedy', TokenScope.READ, NOW)}"}
    modest = {"Authorization": f"Bearer {served.tokens.new('modest', TokenScope.READ, NOW)}"}

    async def opened(token: dict[str, str]) -> str:
        return (await http.post(served.url, json=HELLO, headers=token)).headers["mcp-session-id"]

    async def pinged(token: dict[str, str], session: str) -> int:
        headers = {**token, "Mcp-Session-Id": session, "Mcp-Protocol-Version": "2025-11-25"}
        return (await http.post(served.url, json=rpc("ping"), headers=headers)).status_code

    stays = await opened(modest)
    first, second = await opened(greedy), await opened(greedy)
    assert await pinged(greedy, first) == 200  # the second is now the one least recently used
    third = await opened(greedy)
    assert [await pinged(greedy, session) for session in (first, second, third)] == [200, 404, 200]
    assert await pinged(modest, stays) == 200


async def test_a_stream_ends_when_its_token_is_revoked(
    served: Served, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_transport, "RECHECK_S", 0.05)
    token = {"Authorization": f"Bearer {served.tokens.new('listening', TokenScope.READ, NOW)}"}
    opened = await http.post(served.url, json=HELLO, headers=token)
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "Mcp-Protocol-Version": "2025-11-25"}
    async with asyncio.timeout(20), http.stream("GET", served.url, headers={**token, **session}) as stream:
        assert stream.status_code == 200
        served.tokens.revoke("listening")
        assert [line async for line in stream.aiter_lines() if line.startswith("data: {")] == []


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b"", b""),
        (b"POST /mcp HTTP/1.1\r\nHost: loc", b""),
        (
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %b\r\nContent-Length: 9\r\n\r\n{",
            b"HTTP/1.1 408",
        ),
    ],
    ids=["nothing", "half a head", "half a body"],
)
async def test_slow_requests_time_out(
    served: Served, monkeypatch: pytest.MonkeyPatch, said: bytes, answer: bytes
) -> None:
    monkeypatch.setattr(http_transport, "BODY_S" if answer else "HEAD_S", 0.05)
    address = urlsplit(served.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(said.replace(b"%b", served.reader.encode()))
    async with asyncio.timeout(20):
        heard = await (reader.read(12) if answer else reader.read())
    writer.close()
    assert heard.startswith(answer) if answer else heard == b""


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nx-long: ", b"x" * 60_000),
        (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n", b"x-more: 1\r\n" * 6_000),
        (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;x=", b"x" * 60_000),
        (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"x: 1\r\n" * 9_000),
    ],
    ids=["header", "headers", "chunk extension", "trailers"],
)
async def test_a_head_without_end_closes_the_connection(served: Served, first: bytes, more: bytes) -> None:
    address = urlsplit(served.url)
    _, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(first)

    async def send_on() -> None:
        while True:
            writer.write(more)
            await writer.drain()

    with pytest.raises(ConnectionError):  # before the time of a head is over
        await asyncio.wait_for(send_on(), http_transport.HEAD_S / 2)
    writer.close()


async def test_a_body_too_large_is_refused(served: Served, http: httpx.AsyncClient) -> None:
    token = {"Authorization": f"Bearer {served.commander}"}
    assert (await http.post(served.url, content=b"x" * 1_100_000, headers=token)).status_code == 413


async def test_credentials_that_others_can_read_admit_no_client(served: Served, http: httpx.AsyncClient) -> None:
    token = {"Authorization": f"Bearer {served.reader}"}
    served.where.credentials.chmod(0o644)
    try:
        answered = await http.post(served.url, json=HELLO, headers=token)
    finally:
        served.where.credentials.chmod(0o600)
    assert answered.status_code == 503
    assert str(served.where.data) not in answered.text


async def test_malformed_parameters_are_named(served: Served, http: httpx.AsyncClient) -> None:
    headers = {"Authorization": f"Bearer {served.reader}"}
    opened = await http.post(served.url, json=HELLO, headers=headers)
    headers |= {"Mcp-Session-Id": opened.headers["mcp-session-id"], "Mcp-Protocol-Version": "2025-11-25"}
    answered = await http.post(served.url, json=rpc("tools/call", {"name": 5}), headers=headers)
    (line,) = [line for line in answered.text.splitlines() if line.startswith("data: {")]
    error = json.loads(line.removeprefix("data: "))["error"]
    assert error["code"] == -32602
    assert "params.name" in error["message"]


async def test_a_bug_inside_shows_nothing_of_itself(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> dict[str, Any]:
        raise RuntimeError("the secret of the inside")

    monkeypatch.setattr("zoea.mcp_server.client_tools.ClientTools.call", broken)
    for mode in ("legacy", "auto"):
        async with let_in(served.url, served.reader, mode=mode) as client:
            with pytest.raises(MCPError) as caught:
                await client.call_tool("zoea_list_myses", {})
        assert "secret" not in str(caught.value.error)
        assert caught.value.error.code == -32603
    assert "the secret of the inside" in served.where.log.read_text(encoding="utf-8")


# What bears what comes.


def _everything(served: Served) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of the tables with messages and memories."""
    tables = ("mysis", "message", "delivery", "memory", "turn", "tool_call", "event", "setting", "template", "approval")
    with closing(sqlite3.connect(served.where.database)) as connection:
        return {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables}


async def test_malformed_requests_leave_the_server_up_and_the_database_as_it_was(
    served: Served, http: httpx.AsyncClient
) -> None:
    for name in ("alpha", "beta"):
        await served.swarm.wait(name, timeout_s=30)
    before = _everything(served)
    token = {"Authorization": f"Bearer {served.commander}"}
    opened = await http.post(served.url, json=HELLO, headers=token)
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "Mcp-Protocol-Version": "2025-11-25"}
    count = 10_000 if os.environ.get("ZOEA_SOAK") else 300
    for number, one in enumerate(malformed(4, count)):
        within = session if number % 2 and one.verb != "DELETE" else {}
        headers = {**token, **within, **one.headers}
        answered = await http.request(one.verb, served.url, content=one.body, headers=headers)
        assert answered.status_code < 500, one
        assert "Traceback" not in answered.text
        assert 'File "' not in answered.text
    assert _everything(served) == before
    assert (await ask(served, "zoea_list_myses"))["is_running"]
