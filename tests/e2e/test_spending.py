"""What ends spending in a real run: a budget that is really spent, and turns that bring nothing new."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.zoea_process import PATIENCE_S, ask, spawn, zoea
from tests.fakes.openai_server import Call, OpenAIServer, Say
from tests.fakes.wire_server import Received
from tests.waiting import until
from zoea.ipc.remote_swarm import RemoteSwarm
from zoea.model.values import SwarmView
from zoea.runtime.run_options import attach
from zoea.settings.paths import places

CONFIG = """
[provider.local]
type = "openai"
base_url = "{url}"
model = "reef-1"
context_window = 32768
concurrency = 20
[nudge]
idle_interval = 0.2
[budget]
swarm_per_day = 20000
token_budget_per_agent = 5000
"""
DONE = Say(calls=(Call("zoea_done", json.dumps({"summary": "Reported."})),))
LONG = Say("ore " * 2_500)
"""An answer of about 2,500 tokens, of which ten are more than the budget of the day."""

pytestmark = [pytest.mark.timeout(4 * PATIENCE_S), pytest.mark.usefixtures("own_runtime")]


def answer(request: Received) -> Say:
    """Let alpha say the same in each turn. The others report their task as done."""
    return Say("Understood.") if b"[to alpha," in request.body else DONE


@asynccontextmanager
async def ten_with_a_task(tmp_path: Path, server: OpenAIServer) -> AsyncIterator[RemoteSwarm]:
    """Run ten myses with a task each in a process."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(CONFIG.format(url=server.base_url))
    process = spawn("run", "--headless", "--json", "--myses", "10", "--task", "Report.")
    try:
        await until(lambda: len(ask("SELECT 1 FROM turn")) == 10, within=PATIENCE_S)
        async with await attach(places("")) as swarm:
            yield swarm
    finally:
        process.terminate()
        await asyncio.to_thread(process.communicate, timeout=PATIENCE_S)


async def view_when(swarm: RemoteSwarm, holds: Callable[[SwarmView], bool]) -> SwarmView:
    """Return the first view of the swarm for which something holds."""

    async def look() -> SwarmView | None:
        view = await swarm.view()
        return view if holds(view) else None

    found: SwarmView = await until(look, within=PATIENCE_S)
    return found


async def test_myses_wait_for_room_rest_with_nothing_new_and_are_held_when_the_budget_is_spent(tmp_path: Path) -> None:
    async with OpenAIServer(otherwise=answer) as server:
        server.gate.clear()
        async with ten_with_a_task(tmp_path, server) as swarm:
            view = await view_when(swarm, lambda view: view.held or any(row.queue_place for row in view.myses))
            waiting = {(row.queue_name, row.status) for row in view.myses if row.queue_place}
            assert (view.held, waiting) == (False, {("the budget of the day", "queued")})

            server.gate.set()
            view = await view_when(swarm, lambda view: view.held or all(row.is_at_rest for row in view.myses))
            ends = {row.name: (row.state_reason, row.turns) for row in view.myses}
            assert (view.held, ends.pop("alpha"), set(ends.values())) == (False, ("nothing new", 4), {("done", 1)})

            server.otherwise = lambda _: LONG
            await swarm.broadcast("Again, at length.")
            view = await view_when(swarm, lambda view: view.held)
            used = sum(row.tokens for row in view.myses)
            assert used > 10_000
            assert f"on hold: Swarm budget: {used:,}/20,000 tokens used today" in zoea("list").stdout

            messages = ask("SELECT count(*) FROM message")
            short = await asyncio.to_thread(zoea, "broadcast", "And", "again.")
            assert short.returncode == 2
            assert "nothing was sent. The budget of the swarm today (budget.swarm_per_day) has " in short.stderr
            assert "Send it with --yes" in short.stderr
            assert ask("SELECT count(*) FROM message") == messages
            sent = await asyncio.to_thread(zoea, "broadcast", "And", "again.", "--yes")
            assert sent.returncode == 0
            assert f"): it is held: Swarm budget: {used:,}/20,000 tokens used today" in sent.stdout.splitlines()[0]
