"""Every MCP server of Zoea answers a line that is no message with an error.

That holds over stdio and over HTTP.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR

from tests.architecture.sources import PACKAGE, text_of
from tests.fakes.mcp_client import served_swarm
from zoea.process.answered_lines import NO_ID, describe_line

SERVERS = {
    "mcp_server/stdio_transport.py": ("zoea", "mcp"),
    "files/workbench_server.py": ("zoea", "workbench", "."),
    "world/world_server.py": ("zoea.world",),
}
"""Files that serve MCP over stdio, with the command that starts them."""
BEGIN = '{"jsonrpc":"2.0","id":'
LINES: list[tuple[str, int, int | str | None]] = [
    ("no JSON", PARSE_ERROR, None),
    (BEGIN + '7,"method":"tools/list","params":{"cursor":"\\ud800"}}', PARSE_ERROR, 7),
    ('{"method":"tools/list","params":{"cursor":"\\udfff"},"id":"x y"}', PARSE_ERROR, "x y"),
    ('{"jsonrpc":"2.0","method":"tools/list","id":"\\ud800"}', PARSE_ERROR, None),
    (BEGIN + f'8,"method":"tools/list","params":{{"a":{"[" * 50_000}{"]" * 50_000}}}}}', PARSE_ERROR, 8),
    (f'{{"params":{"[" * 50_000}{"]" * 50_000},"id":9}}', PARSE_ERROR, 9),
    (BEGIN + f'{"9" * 5_000},"method":"tools/list"}}', PARSE_ERROR, None),
    (BEGIN + "007}", PARSE_ERROR, None),
    (BEGIN + '10,"method":"tools/li', PARSE_ERROR, 10),
    ("\x00\x9d", PARSE_ERROR, None),
    (BEGIN + '11,"method":5}', INVALID_REQUEST, 11),
    (BEGIN + '12,"method":"tools/list","params":[1]}', INVALID_REQUEST, 12),
    ('{"id":13,"method":"tools/list"}', INVALID_REQUEST, 13),
    (BEGIN + '"fourteen"}', INVALID_REQUEST, "fourteen"),
    (BEGIN + "true}", INVALID_REQUEST, None),
    (f'[{BEGIN}15,"method":"ping"}}]', INVALID_REQUEST, None),
    *(
        (f'{BEGIN}{number},"method":"ping"}}', INVALID_REQUEST, None)
        for number in ("1.5", "null", "true", "[1]", "1e1")
    ),
    ("5", INVALID_REQUEST, None),
    ("null", INVALID_REQUEST, None),
]
"""Lines, with the code and the id of their answer."""
UNANSWERED = ("", "  ", BEGIN + '16,"result":5}', BEGIN + '17,"error":"x"}')
ABOUT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
HELLO = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": ABOUT})


def test_every_server_over_stdio_is_in_the_table() -> None:
    files = [file for file in PACKAGE.rglob("*.py") if "stdio_server(" in text_of(file)]
    assert {str(file.relative_to(PACKAGE)) for file in files} == SERVERS.keys()


@pytest.mark.usefixtures("forked_programs")
@pytest.mark.parametrize("when", ["before the first request", "afterwards"])
@pytest.mark.parametrize("command", SERVERS.values(), ids=" ".join)
async def test_each_line_is_answered_and_the_next_request_too(
    tmp_path: Path, command: tuple[str, ...], when: str
) -> None:
    lines = [*(line for line, _, _ in LINES), *UNANSWERED]
    lines = [HELLO, *lines] if when == "afterwards" else [*lines, HELLO]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *command, stdin=PIPE, stdout=PIPE, limit=2**24, cwd=tmp_path
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n".join([*lines, BEGIN + '2,"method":"ping"}', ""]).encode())
    answers: list[dict[str, Any]] = []
    while not answers or answers[-1]["id"] != 2:
        answers.append(json.loads(await process.stdout.readline()))
    process.stdin.close()
    assert await process.wait() == 0
    results = {answer["id"]: answer["result"] for answer in answers if "result" in answer}
    assert results[1]["serverInfo"]
    assert results[2] == {}
    refused = [(answer["error"]["code"], answer["id"]) for answer in answers if "error" in answer]
    assert refused == [(code, number) for _, code, number in LINES]
    said = [answer["error"]["message"] for answer in answers if "error" in answer]
    assert all("this is no " in one or one == NO_ID for one in said)


async def test_a_client_that_is_told_nothing_else_hears_why() -> None:
    answer = describe_line(RuntimeError("x"))
    assert answer is not None
    assert (answer.error.code, answer.id) == (PARSE_ERROR, None)


@pytest.mark.usefixtures("forked_programs")
async def test_the_log_names_the_first_of_such_lines(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "zoea", "mcp", stdin=PIPE, stdout=PIPE)
    await process.communicate(b"one\ntwo\n" + HELLO.encode() + b"\n")
    log = (tmp_path / "data" / "mcp.log").read_text("utf-8")
    assert log.count("the client sent a line that is no message: this is no JSON: expected value") == 1


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_over_http_each_is_refused_in_the_answer_to_its_request(tmp_path: Path, version: str) -> None:
    async with served_swarm(tmp_path) as served, httpx2.AsyncClient(timeout=30.0, verify=False) as http:
        http.headers = {
            "Authorization": f"Bearer {served.commander}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": version,
        }
        for line, _, _ in LINES:
            reply = await http.post(served.url, content=line.encode())
            refused = reply.json()
            assert (reply.status_code, refused["jsonrpc"]) == (400, "2.0")
            assert refused["error"]["code"] in (PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS)
