"""A real terminal shows each mysis's status, over a slow and a failing model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.terminal_screen import TerminalScreen
from tests.e2e.zoea_process import zoea
from tests.fakes.openai_server import NEVER, Fail, OpenAIServer, Say, Step
from tests.fakes.wire_server import Received
from zoea.settings.paths import places

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("own_runtime")]

CONFIG = """
[swarm]
default_provider = "slow"
default_template = "default"
[llm]
retries = 4
[provider.slow]
type = "openai"
base_url = "{url}"
model = "reef-1"
concurrency = 1
"""

WORK = ("working", "queued", "stopped")


def write_config(url: str) -> None:
    folder = Path(places(configured=False).config)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(CONFIG.format(url=url))


@asynccontextmanager
async def cockpit(server: OpenAIServer) -> AsyncIterator[TerminalScreen]:
    """Run three myses in a terminal, over a server."""
    write_config(server.base_url)
    glass = TerminalScreen("run", "--myses", "3", size=(140, 40), environ={})
    try:
        yield glass
    finally:
        glass.close()


@asynccontextmanager
async def cockpit_over(step: Step) -> AsyncIterator[TerminalScreen]:
    """Run three myses in a terminal. The server answers each request with this step."""
    async with OpenAIServer(otherwise=lambda _: step) as server, cockpit(server) as glass:
        yield glass


async def listed() -> list[dict[str, Any]]:
    ran = await asyncio.to_thread(zoea, "list", "--json")
    assert ran.returncode == 0, ran.stderr
    found: list[dict[str, Any]] = json.loads(ran.stdout)
    return found


async def test_who_waits_for_a_place_is_queued_and_not_working() -> None:
    async with cockpit_over(Say("never", first_after=NEVER)) as glass:
        await asyncio.to_thread(glass.until, "3 myses")
        sent = await asyncio.to_thread(zoea, "broadcast", "report")
        assert sent.returncode == 0, sent.stderr
        await asyncio.to_thread(glass.until, "1 working", " queued ", "1st for", "2nd for")
        rows = await listed()
        assert sorted(row["status"] for row in rows) == ["queued", "queued", "working"]
        assert {row["state"] for row in rows} == {"running"}
        assert sorted(row["queue_place"] for row in rows) == [0, 1, 2]
        await asyncio.to_thread(glass.until, "/7.2k? ")  # 8,192 tokens are assumed, and the row says that it is a guess

        busy = next(row["name"] for row in rows if row["status"] == "working")
        await asyncio.to_thread(zoea, "stop", busy)
        # The next one works from the moment its request is sent, and not from its first token on.
        await asyncio.to_thread(
            glass.until, lambda text: all(f"1 {word}" in text for word in WORK) and "2nd" not in text
        )


async def test_a_failing_model_shows_the_next_attempt_and_its_cause() -> None:
    async with cockpit_over(Fail.error(500, "out of ore")) as glass:
        await asyncio.to_thread(glass.until, "3 myses")
        await asyncio.to_thread(zoea, "broadcast", "report")
        await asyncio.to_thread(glass.until, lambda text: "retrying" in text and "/5" in text and "500" in text)


async def test_who_failed_in_its_turn_is_not_counted_as_working_and_its_report_goes_when_it_runs() -> None:
    async with OpenAIServer(otherwise=lambda _: Fail.error(401, "no such key")) as server, cockpit(server) as glass:
        await asyncio.to_thread(glass.until, "3 myses")
        await asyncio.to_thread(zoea, "broadcast", "report")
        await asyncio.to_thread(glass.until, "need you · 3 errored", "3 errored │", "Zoea does not try again by itself")
        server.otherwise = lambda _: Say("All is well.")
        glass.press("*")
        await asyncio.to_thread(glass.until, "3 marked")
        glass.press("r")
        await asyncio.to_thread(
            glass.until, lambda text: "All is well." in text and "does not try again" not in text and "401" not in text
        )


async def test_a_rate_limit_of_one_model_is_shown_and_keeps_back_no_other_model() -> None:
    def answer(request: Received) -> Step:
        if request.json["model"] == "bad":
            return Fail(429, '{"error": {"message": "slow down"}}', {"retry-after": "90"})
        return Say("All is well.")

    async with OpenAIServer(otherwise=answer) as server, cockpit(server) as glass:
        await asyncio.to_thread(glass.until, "3 myses")
        for name in ("delta", "omega"):
            made = await asyncio.to_thread(zoea, "new", name, "--model", "bad", "--keep-model")
            assert made.returncode == 0, made.stderr
        await asyncio.to_thread(zoea, "send", "delta", "report")
        await asyncio.to_thread(glass.until, "1 retrying", "429")
        await asyncio.to_thread(zoea, "send", "omega", "report")
        await asyncio.to_thread(glass.until, "1 waiting", "Rate limit of slow/bad")
        sent = await asyncio.to_thread(zoea, "send", "alpha", "report")
        assert sent.returncode == 0, sent.stderr
        await asyncio.to_thread(glass.until, "All is well.")
        glass.press("u", "end")
        await asyncio.to_thread(
            glass.until, "limited", "rate limit of bad: no request until", "then 1 request at a time"
        )
