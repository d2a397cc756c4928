"""The world as a process: the official client over stdio and HTTP, kills, many callers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import TextContent

import zoea
from tests.case_tables import walk_cases
from zoea.model.errors import UsageError, WorldError
from zoea.world import command
from zoea.world.__main__ import main, parse
from zoea.world.catalog import REEF_TOOLS
from zoea.world.world_log import WorldLog, connect_read_only, load_world
from zoea.world.world_server import WorldOptions, build_server, list_tools, open_world, parse_address, run

pytestmark = pytest.mark.usefixtures("forked_programs")

ROOT = Path(zoea.__file__).parent.parent


def make_environment() -> dict[str, str]:
    """Return the environment of a child.

    That of the import has a variable of the fork server, so that no child would be a fork.
    """
    return {**os.environ, "PYTHONPATH": str(ROOT)}


async def call(client: Client, tool: str, **args: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, args)
    (content,) = answer.content
    assert isinstance(content, TextContent)
    result = json.loads(content.text)
    assert answer.is_error == ("code" in result)
    assert isinstance(result, dict)
    return result


async def enter(client: Client, name: str) -> str:
    account = await call(client, "register", name=name)
    return str((await call(client, "login", **account))["session_id"])


def child(folder: Path, **options: Any) -> StdioServerParameters:
    program, *arguments = command(folder, seed=1, **options)
    return StdioServerParameters(command=program, args=arguments, env=make_environment())


@asynccontextmanager
async def over_http(folder: Path) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    program, *arguments = command(folder, seed=1, turbo=True, http="127.0.0.1:0")
    process = await asyncio.create_subprocess_exec(
        program, *arguments, env=make_environment(), stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
    )
    assert process.stderr is not None
    try:
        line = (await asyncio.wait_for(process.stderr.readline(), 20)).decode()
        yield line.split(" at ")[1].strip(), process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 30)


async def test_a_client_over_stdio_plays_the_first_load(tmp_path: Path) -> None:
    async with Client(child(tmp_path, turbo=True)) as client:
        listed = (await client.list_tools()).tools
        assert {tool.name for tool in listed} == set(REEF_TOOLS)
        session = await enter(client, "alpha")
        for tool in ("undock", "mine", "mine", "mine", "dock"):
            await call(client, tool, session_id=session)
        sold = await call(client, "sell", session_id=session)
        status = await call(client, "get_status", session_id=session)
        while status["busy"] or status["current_tick"] <= sold["current_tick"]:
            status = await call(client, "get_status", session_id=session)
        assert status["credits"] > 0
    with closing(connect_read_only(tmp_path / "reef.db")) as db:
        assert load_world(db, whole=True).world.hash() == load_world(db, whole=False).world.hash()
        assert db.execute("SELECT count(*) FROM snapshot").fetchone() == (1,)


async def test_twenty_callers_over_one_session_get_their_own_answers(tmp_path: Path) -> None:
    async with Client(child(tmp_path, tick=0.05)) as client:

        async def play(name: str) -> dict[str, Any]:
            session = await enter(client, name)
            await call(client, "undock", session_id=session)
            for number in range(5):
                await call(client, "captains_log_add", session_id=session, entry=f"{name} {number}")
            log = await call(client, "captains_log_list", session_id=session, limit=5)
            assert [entry["entry"] for entry in log["entries"]] == [f"{name} {n}" for n in (4, 3, 2, 1, 0)]
            return await call(client, "get_status", session_id=session)

        found = await asyncio.gather(*(play(f"captain {n}") for n in range(20)))
        assert sorted(status["name"] for status in found) == sorted(f"captain {n}" for n in range(20))


async def test_a_killed_world_keeps_every_acknowledged_call(tmp_path: Path) -> None:
    async with over_http(tmp_path) as (url, process), Client(url) as client:
        account = await call(client, "register", name="alpha")
        session = (await call(client, "login", **account))["session_id"]
        await call(client, "undock", session_id=session)
        await call(client, "captains_log_add", session_id=session, entry="remember me")
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
    async with Client(child(tmp_path, turbo=True)) as client:
        session = (await call(client, "login", **account))["session_id"]
        assert (await call(client, "get_status", session_id=session))["docked"] is None
        log = await call(client, "captains_log_list", session_id=session)
        assert log["entries"][0]["entry"] == "remember me"


async def test_silent_connections_keep_no_client_out(tmp_path: Path) -> None:
    async with over_http(tmp_path) as (url, _):
        address = urlsplit(url)
        silent = [await asyncio.open_connection(address.hostname, address.port) for _ in range(300)]
        async with Client(url) as client:
            assert (await client.list_tools()).tools
        async with asyncio.timeout(20):
            assert await silent[0][0].read() == b""
        for _, writer in silent:
            writer.close()


async def test_two_clients_over_http_share_one_world(tmp_path: Path) -> None:
    async with over_http(tmp_path) as (url, process):
        async with Client(url) as one, Client(url) as two:
            first, second = await enter(one, "alpha"), await enter(two, "beta")
            await call(one, "chat", session_id=first, text="hello", to="beta")
            heard = await call(two, "get_notifications", session_id=second)
            assert [notice["text"] for notice in heard["notifications"]] == ["hello"]
            assert (await call(two, "get_status", session_id="x"))["code"] == "session_lost"
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 30) == 0
    with closing(sqlite3.connect(tmp_path / "reef.db")) as db:
        assert db.execute("SELECT count(*) FROM snapshot").fetchone() == (1,)


async def test_a_client_in_the_same_process_sees_tools_and_errors(tmp_path: Path) -> None:
    async with open_world(WorldOptions(tmp_path, seed=1)) as (service, record), Client(build_server(service)) as client:
        assert len((await client.list_tools()).tools) == len(REEF_TOOLS)
        assert (await call(client, "fly"))["code"] == "unknown_tool"
        session = await enter(client, "alpha")
        assert (await call(client, "undock", session_id=session))["cooldown_ticks"] == 1
        assert record.reef.world.players["alpha"].docked == ""
    with closing(connect_read_only(tmp_path / "reef.db")) as db:
        assert load_world(db, whole=False).world.players["alpha"].docked == ""


async def test_a_world_ends_if_its_ticks_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = asyncio.Event()
    monkeypatch.setattr("zoea.world.world_server.os._exit", lambda _: ended.set())

    def broken(_: object, *, late: bool = False) -> None:
        raise RuntimeError("no time")

    monkeypatch.setattr("zoea.world.ticker.Ticker.tick", broken)
    async with open_world(WorldOptions(tmp_path, tick=0.01)):
        await asyncio.wait_for(ended.wait(), 20)


async def test_a_used_address_is_reported(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        options = WorldOptions(tmp_path, http=f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(UsageError, match="Cannot listen"):
            await run(options)


async def test_a_world_waits_for_the_one_before_it_to_end(tmp_path: Path) -> None:
    first = WorldLog(tmp_path / "reef.db")
    second = asyncio.create_task(served(tmp_path))
    await asyncio.sleep(0)
    assert not second.done()
    first.close()
    await asyncio.wait_for(second, 20)


async def served(folder: Path) -> None:
    async with open_world(WorldOptions(folder)):
        pass


async def test_a_world_file_in_use_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoea.world.world_server.LOCK_TIMEOUT_S", 0.1)
    async with open_world(WorldOptions(tmp_path)):
        with pytest.raises(WorldError, match="another process"):
            await run(WorldOptions(tmp_path))


def test_every_tool_but_three_takes_a_session_and_says_whether_it_only_reads() -> None:
    found = {tool.name: tool for tool in list_tools()}
    without = {name for name, tool in found.items() if "session_id" not in tool.input_schema.get("required", [])}
    assert without == {"register", "login", "help"}
    reads = {name for name, tool in found.items() if tool.annotations and tool.annotations.read_only_hint}
    assert {name for name in found if name.startswith("get_")} <= reads
    assert not reads & {"undock", "mine", "sell", "chat", "captains_log_add", "login", "register"}


def test_the_command_line_carries_every_option(tmp_path: Path) -> None:
    argv = command(tmp_path, seed=4, tick=0.5, turbo=True, faults="error=0.1", fault_seed=3, http="127.0.0.1:0")
    assert argv[1:4] == ["-P", "-m", "zoea.world"]
    options = parse(argv[4:])
    assert (options.data, options.seed, options.tick, options.turbo) == (tmp_path, 4, 0.5, True)
    assert (options.faults, options.fault_seed, options.http) == ("error=0.1", 3, "127.0.0.1:0")
    assert parse(command(tmp_path)[4:]).seed is None


@walk_cases("wrong", [["--tick", "0"], ["--systems", "3"], ["--nonsense"]])
def test_an_invalid_command_line_is_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit):
        parse(wrong)


def test_errors_of_the_process_go_to_stderr_with_their_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", str(tmp_path), "--faults", "sloth=1"]) == 2
    assert "sloth" in capsys.readouterr().err


def test_addresses_are_parsed_into_host_and_port() -> None:
    assert parse_address("127.0.0.1:80") == ("127.0.0.1", 80)
    assert parse_address("8808") == ("127.0.0.1", 8808)
    assert parse_address("[::1]:0") == ("::1", 0)
    for wrong in ("", "host", "host:port", "host:70000"):
        with pytest.raises(UsageError):
            parse_address(wrong)
