"""The cockpit over a websocket: shows the swarm, takes keys, ends with its connection."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import aiohttp
import pytest

from tests.e2e.serve_process import gone, served
from tests.e2e.zoea_process import PATIENCE_S, find_owner, run_headless
from tests.waiting import until
from zoea.settings.paths import places

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("own_runtime")]


async def shows(browser: aiohttp.ClientWebSocketResponse, text: str) -> None:
    """Read the output until it contains `text`."""
    drawn = ""
    async with asyncio.timeout(PATIENCE_S):
        while text not in drawn:
            drawn += (await browser.receive_bytes()).decode("utf-8", "replace")


def find_listeners(pid: int) -> list[str]:
    """The addresses at which a process listens over TCP, as the kernel writes them (proc_net_tcp(5))."""
    own = {str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_symlink()}
    tables = [Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.splitlines()]
    return [row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own]


async def test_nothing_listens_until_it_is_asked_and_then_on_this_machine_alone() -> None:
    swarm = ("--myses", "1", "--provider", "scripted")
    async with run_headless(*swarm):
        assert find_listeners(find_owner()) == []
    settings = places("").make_config() / "config.toml"
    settings.write_text("[mcp]\nhttp = true\nport = 0\n[metrics]\nserve = true\nport = 0\n")
    async with served(*swarm) as zoea:
        assert await until(lambda: len(find_listeners(zoea.process.pid)) == 3, within=PATIENCE_S)
        assert set(find_listeners(zoea.process.pid)) == {"0100007F"}


async def test_q_detaches_one_browser_and_cockpits_end_with_the_server() -> None:
    async with (
        served("--myses", "1", "--provider", "scripted") as zoea,
        aiohttp.ClientSession() as client,
        client.ws_connect(f"{zoea.address}ws?width=100&height=30") as one,
    ):
        await shows(one, "alpha")
        first = zoea.cockpits()
        async with client.ws_connect(f"{zoea.address}ws?width=100&height=30") as other:
            await shows(other, "alpha")
            second = zoea.cockpits() - first
            assert (len(first), len(second)) == (1, 1)
            await other.send_json(["stdin", "q"])
            await shows(other, "leave it running")
            await other.send_json(["stdin", "l"])
            async with asyncio.timeout(PATIENCE_S):
                async for _drawn in other:
                    """Its last words."""
            await gone(second)
        assert zoea.process.poll() is None
        await one.send_json(["stdin", "b"])
        await shows(one, "BROADCAST to")
        assert zoea.cockpits() == first

        zoea.process.send_signal(signal.SIGKILL)
        await gone(first)


@pytest.mark.parametrize("key", ["x", "S"], ids=["stops a mysis", "writes a file"])
async def test_a_read_only_page_follows_the_swarm_and_commands_nothing(key: str) -> None:
    async with (
        served("--myses", "1", "--provider", "scripted"),
        served("--read-only") as watched,
        aiohttp.ClientSession() as client,
        client.ws_connect(f"{watched.address}ws?width=100&height=30") as one,
    ):
        await shows(one, "read-only")
        await one.send_json(["stdin", key])
        await shows(one, "This cockpit is read-only")
