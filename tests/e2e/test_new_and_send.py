"""What `zoea new` and `zoea send` say and spend, as processes against a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.test_tasks import configure, run
from tests.e2e.zoea_process import ask, find_owner, spawn
from tests.fakes.openai_server import OpenAIServer, Say
from tests.waiting import until

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("own_runtime")]


@asynccontextmanager
async def running(tmp_path: Path, server: OpenAIServer, myses: int) -> AsyncIterator[None]:
    """Run myses without a task in a process."""
    configure(tmp_path, server)
    owner = spawn("run", "--headless", "--myses", str(myses))
    try:
        await until(find_owner, within=60)
        await until(lambda: ask("SELECT count(*) FROM mysis") == [(myses,)], within=60)
        yield
    finally:
        owner.terminate()
        await asyncio.to_thread(owner.communicate, timeout=60)


async def test_a_new_mysis_gets_a_broadcast_only_if_asked_for_and_answers_its_task(tmp_path: Path) -> None:
    async with OpenAIServer(otherwise=lambda _: Say("Iron at 7.")) as server, running(tmp_path, server, 1):
        missing = await run("new", "beta", "--broadcast")
        assert missing.returncode == 2
        assert "there is no broadcast of yours to all of the last 12 hours" in missing.stderr

        await run("broadcast", "mine", "iron", "--wait")
        plain = await run("new", "beta")
        assert (plain.returncode, plain.stdout) == (0, "beta is running\n")
        chosen = await run("new", "gamma", "--task", "Sell the ore.", "--broadcast")
        assert chosen.stdout.splitlines()[-1].startswith("First it gets your broadcast of ")
        assert chosen.stdout.endswith(" ago: mine iron\n")
        await until(lambda: ask("SELECT 1 FROM turn WHERE mysis_id = 3 AND outcome IS NOT NULL"), within=60)
        prompts = "SELECT content FROM memory WHERE mysis_id = 3 AND role = 'user' ORDER BY turn_id, seq LIMIT 2"
        assert ask(prompts) == [("mine iron",), ("Sell the ore.",)]
        assert ask("SELECT count(*) FROM request WHERE mysis_id = 2") == [(0,)]
