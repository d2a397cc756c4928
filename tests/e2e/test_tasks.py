"""A task given to `zoea run`, as a process against a server: worked on to its end, or the run says why it rests."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.zoea_process import events, zoea
from tests.fakes.openai_server import Call, Fail, OpenAIServer, Say
from tests.fakes.wire_server import Received
from zoea.settings.paths import places

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("own_runtime")]

SUMMARY = "Sold for 40 credits."


def configure(tmp_path: Path, server: OpenAIServer) -> None:
    (tmp_path / "config").mkdir(exist_ok=True)
    (tmp_path / "config" / "config.toml").write_text(
        f'[provider.local]\ntype = "openai"\nbase_url = "{server.base_url}"\nmodel = "reef-1"\n'
        "context_window = 32768\n[nudge]\nidle_interval = 0.2\n"
    )


async def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(zoea, *arguments, timeout=60)


def report(_: Received) -> Say:
    return Say(calls=(Call("zoea_done", json.dumps({"summary": SUMMARY})),))


async def test_a_run_with_a_task_creates_a_mysis_and_ends_when_it_is_done(tmp_path: Path) -> None:
    async with OpenAIServer(Say("I look at the prices first."), otherwise=report) as server:
        configure(tmp_path, server)
        ran = await run("run", "--headless", "--task", "Sell the ore.", "--turns", "50")
    assert ran.returncode == 0, ran.stderr
    assert "The swarm rests after 2 of 50 turns: alpha reported the task as done" in ran.stdout
    [row] = json.loads((await run("list", "--json")).stdout)
    assert (row["status"], row["goal"], row["text"]) == ("done", "Sell the ore.", SUMMARY)
    assert SUMMARY in (await run("list")).stdout


async def test_every_new_mysis_gets_the_task(tmp_path: Path) -> None:
    async with OpenAIServer(otherwise=report) as server:
        configure(tmp_path, server)
        ran = await run("run", "--headless", "--json", "--myses", "3", "--task", "Sell the ore.", "--turns", "9")
    assert ran.returncode == 0, ran.stderr
    assert events(ran.stdout)[-1]["event"] == "summary"
    assert {row["goal"] for row in json.loads((await run("list", "--json")).stdout)} == {"Sell the ore."}


async def test_turns_that_no_mysis_will_take_end_the_run_with_how_to_give_a_task() -> None:
    ran = await run("run", "--headless", "--json", "--myses", "2", "--provider", "scripted", "--turns", "3")
    assert ran.returncode == 6
    error = json.loads(ran.stderr)["error"]
    assert error["what"] == "the swarm rests after 0 of 3 turns: alpha, beta had no task"
    assert "zoea run --task TEXT" in error["hint"]


async def test_a_run_that_ends_by_failures_names_them(tmp_path: Path) -> None:
    async with OpenAIServer(otherwise=lambda _: Fail.error(401, "Incorrect API key provided.")) as server:
        configure(tmp_path, server)
        ran = await run("run", "--headless", "--task", "Sell the ore.", "--turns", "3")
    assert ran.returncode == 6
    assert "alpha failed (" in ran.stderr


async def test_a_task_for_no_new_mysis_is_refused() -> None:
    await run("run", "--headless", "--myses", "1", "--provider", "scripted", "--for", "200ms")
    ran = await run("run", "--headless", "--myses", "1", "--task", "Sell the ore.")
    assert ran.returncode == 2
    assert "no new mysis takes the task: --myses 1, and there are 1" in ran.stderr
    assert (await run("run", "--task", " ")).returncode == 2


async def test_a_mysis_without_its_counters_keeps_no_run_from_beginning(tmp_path: Path) -> None:
    async with OpenAIServer(otherwise=report) as server:
        configure(tmp_path, server)
        await run("run", "--headless", "--myses", "1", "--for", "200ms")
        with closing(sqlite3.connect(places("").database)) as conn, conn:
            conn.execute("DELETE FROM tally")
        ran = await run("run", "--headless", "--myses", "2", "--task", "Sell the ore.", "--turns", "9")
    assert ran.returncode == 0, ran.stderr
    assert [row["name"] for row in json.loads((await run("list", "--json")).stdout)] == ["alpha", "beta"]
