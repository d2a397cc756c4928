"""The cockpit over a websocket: shows the swarm, takes keys, ends with its connection."""

from __future__ import annotations

import asyncio
import signal

import aiohttp
import pytest

from tests.e2e.serve_process import gone, served
from tests.e2e.zoea_process import PATIENCE_S

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("own_runtime")]


async def shows(browser: aiohttp.ClientWebSocketResponse, text: str) -> None:
    """Read the output until it contains `text`."""
    drawn = ""
    async with asyncio.timeout(PATIENCE_S):
        while text not in drawn:
            drawn += (await browser.receive_bytes()).decode("utf-8", "replace")


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


async def test_a_read_only_page_follows_the_swarm_and_commands_nothing() -> None:
    async with (
        served("--myses", "1", "--provider", "scripted"),
        served("--read-only") as watched,
        aiohttp.ClientSession() as client,
        client.ws_connect(f"{watched.address}ws?width=100&height=30") as one,
    ):
        await shows(one, "read-only")
        for key in "xS":
            await one.send_json(["stdin", key])
            await shows(one, "This cockpit is read-only")
