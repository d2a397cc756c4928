"""A running swarm takes a provider's changed address, model and key from the next turn.

No mysis is stopped.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.zoea_process import ask, environment, find_owner, spawn, zoea
from tests.fakes.openai_server import OpenAIServer, Say
from tests.waiting import until_true

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("own_runtime")]


def configure(tmp_path: Path, server: OpenAIServer, model: str, more: str = "") -> None:
    (tmp_path / "config").mkdir(exist_ok=True)
    (tmp_path / "config" / "config.toml").write_text(
        f'[provider.local]\ntype = "openai"\nbase_url = "{server.base_url}"\nmodel = "{model}"\n'
        f'context_window = 32768\napi_key = "file:local"\n{more}'
    )


def set_key(value: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "zoea", "credentials", "set", "local"],
        env=environment(),
        input=value,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


async def run(*arguments: str) -> str:
    ran = await asyncio.to_thread(zoea, *arguments, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


async def answered(words: str) -> None:
    """Wait for an answer in the database, and see that a command shows it."""
    await asyncio.to_thread(until_true, lambda: ask(f"SELECT 1 FROM memory WHERE content = '{words}'"))
    assert words in await run("list")


@asynccontextmanager
async def running_swarm() -> AsyncIterator[None]:
    process = spawn("run", "--headless", "--json", "--myses", "1")
    try:
        running = "SELECT 1 FROM mysis WHERE state = 'running'"
        await asyncio.to_thread(until_true, lambda: find_owner() and ask(running))
        assert '"state": "running"' in await run("list", "--json")
        yield
    finally:
        process.terminate()
        await asyncio.to_thread(process.communicate, timeout=30)


async def test_a_changed_provider_and_a_new_key_serve_the_next_turn(tmp_path: Path) -> None:
    async with (
        OpenAIServer(otherwise=lambda _: Say("from the first")) as first,
        OpenAIServer(otherwise=lambda _: Say("from the second")) as second,
    ):
        first.key, second.key = "key-number-one", "key-number-two"
        configure(tmp_path, first, "reef-1")
        await asyncio.to_thread(set_key, first.key)
        async with running_swarm():
            await run("send", "alpha", "hello")
            await answered("from the first")

            configure(tmp_path, second, "reef-1", "[world]\nturbo = true\n")
            said = await run("config", "apply")
            assert "from the next turn on: provider local" in said
            assert "world.turbo: when the swarm is opened again" in said
            stored = await asyncio.to_thread(set_key, second.key)
            assert "from the next turn on: provider local" in stored.stdout
            await run("send", "alpha", "again")
            await answered("from the second")

            report = json.loads(await run("config", "apply", "--json"))
            assert (report["providers"], report["problems"]) == ([], [])
            await run("credentials", "delete", "local")
            assert "provider local goes on as it was: file:local" in await run("config", "apply")
            await run("send", "alpha", "once more")
            await asyncio.to_thread(until_true, lambda: len(second.chats) == 2)


async def test_a_model_that_the_server_does_not_list_is_refused_until_it_is_kept(tmp_path: Path) -> None:
    async with OpenAIServer(otherwise=lambda _: Say("well")) as server:
        configure(tmp_path, server, "reef-1")
        await asyncio.to_thread(set_key, "any-key")
        ran = await asyncio.to_thread(zoea, "run", "--headless", "--myses", "2", "--model", "reef-2", "--for", "1s")
        assert (ran.returncode, "no model 'reef-2'; the nearest is reef-1" in ran.stderr) == (2, True)
        async with running_swarm():
            refused = await asyncio.to_thread(zoea, "new", "beta", "--model", "reef-2")
            assert (refused.returncode, "the nearest is reef-1" in refused.stderr) == (2, True)
            assert [row["name"] for row in json.loads(await run("list", "--json"))] == ["alpha"]
            kept = json.loads(await run("new", "beta", "--idle", "--model", "reef-2", "--keep-model", "--json"))
            assert kept["model"] == "reef-2"
            assert json.loads(await run("new", "gamma", "--idle", "--model", "reef-2", "--json"))["model"] == "reef-2"
