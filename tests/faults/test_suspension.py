"""A suspended owner: the time it stood still counts as passed, and its myses go on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.zoea_process import ask, find_owner, spawn, zoea
from tests.fakes.openai_server import Call, OpenAIServer, Say
from tests.waiting import until

STOPPED_S = 60.0 if os.environ.get("ZOEA_SOAK") else 5.0
DEADLINE_S = 2.0
CONFIG = """
[swarm]
default_provider = "one"
[llm]
between_tokens = {deadline}
[provider.one]
type = "openai"
base_url = "{url}/v1"
model = "reef-1"
concurrency = 4
"""

pytestmark = pytest.mark.timeout(STOPPED_S + 500)


class Owner:
    """A swarm without a screen over a model server of the test."""

    def __init__(self, folder: Path, server: OpenAIServer) -> None:
        (folder / "config").mkdir()
        (folder / "config" / "config.toml").write_text(CONFIG.format(url=server.url, deadline=DEADLINE_S))
        self.process = spawn("run", "--headless", "--json", "--myses", "0")

    async def run(self, *arguments: str) -> str:
        done = await asyncio.to_thread(zoea, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def suspend(self) -> None:
        """Stop the process for `STOPPED_S`; nothing tells how long but the clock."""
        self.process.send_signal(signal.SIGSTOP)
        ends = time.monotonic() + STOPPED_S
        await until(lambda: time.monotonic() > ends, within=2 * STOPPED_S)
        self.process.send_signal(signal.SIGCONT)

    async def shown(self, words: str) -> None:
        """Wait for an answer in the database, and see that a command shows it."""
        await until(lambda: ask(f"SELECT 1 FROM memory WHERE content = '{words}'"), within=120.0)
        assert words in await self.run("show", "alpha")

    def end(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        output, _ = self.process.communicate(timeout=30)
        assert self.process.returncode == 0
        return output


@pytest.fixture
def open_owner(tmp_path: Path) -> Iterator[Callable[[OpenAIServer], Owner]]:
    owners: list[Owner] = []

    def opened(server: OpenAIServer) -> Owner:
        owners.append(Owner(tmp_path, server))
        return owners[-1]

    yield opened
    for owner in owners:
        if owner.process.poll() is None:
            owner.process.kill()
            owner.process.wait()


async def test_a_request_in_flight_is_sent_again_after_a_suspension(
    open_owner: Callable[[OpenAIServer], Owner],
) -> None:
    async with OpenAIServer(Say("that stops in the middle", stall_after=2), Say("after the pause")) as server:
        owner = open_owner(server)
        await until(find_owner, within=120.0)
        await owner.run("new", "alpha")
        await owner.run("send", "alpha", "hello")
        await until(lambda: len(server.chats) == 1, within=120.0)
        await owner.suspend()
        await owner.shown("after the pause")
        assert len(server.chats) == 2
        events = [json.loads(line)["event"] for line in owner.end().splitlines()]
    assert "clock.set" not in events


async def test_a_wait_that_ends_during_a_suspension_is_over_after_it(
    open_owner: Callable[[OpenAIServer], Owner],
) -> None:
    wait = Call("zoea_wait", json.dumps({"seconds": int(STOPPED_S) - 1, "reason": "the ore is far"}))
    async with OpenAIServer(Say(calls=(wait,)), Say("it is here")) as server:
        owner = open_owner(server)
        await until(find_owner, within=120.0)
        await owner.run("new", "alpha")
        await owner.run("send", "alpha", "wait for the ore")
        await until(lambda: ask("SELECT 1 FROM turn WHERE outcome IS NOT NULL"), within=120.0)
        assert "the ore is far" in await owner.run("show", "alpha")
        await owner.suspend()
        await owner.shown("it is here")
        owner.end()
