"""An external client searches a live swarm while its myses write."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.mcp_client import NOW, answering_swarm
from zoea.mcp_server.tokens import Tokens, TokenScope
from zoea.settings.credentials import Credentials
from zoea.settings.paths import Places

SOAK = bool(os.environ.get("ZOEA_SOAK"))
MYSES, SEARCHES = (100, 5_000) if SOAK else (10, 20)


@pytest.mark.timeout(900 if SOAK else 60)
@pytest.mark.usefixtures("forked_programs")
async def test_a_client_in_another_process_searches_while_many_myses_write(runtime: Path, tmp_path: Path) -> None:
    where = Places(data=tmp_path / "data", config=tmp_path / "config", runtime=runtime)
    wishes = {"swarm.max_myses": MYSES, "budget.swarm_per_day": "none", "mcp.port": 0}
    async with answering_swarm(runtime, tmp_path, **wishes) as swarm:
        for number in range(MYSES):
            await swarm.create(f"m{number}")
        await swarm.send("m0", "The vein of beryllium lies at p16")
        token = Tokens(Credentials(where.credentials)).new("reader", TokenScope.READ, NOW)
        searching = asyncio.create_task(_searched((await swarm.serve_mcp(True)).url, token))
        rounds = 0
        while not searching.done():
            rounds += 1
            await swarm.broadcast(f"Everybody: report your hold, round {rounds}")
            await asyncio.wait({searching}, timeout=0.5)
        found = await searching
        assert (found["searches"], found["failed"]) == (SEARCHES, [])
        for number in range(MYSES):
            await swarm.wait(f"m{number}", timeout_s=60)
        views = (await swarm.view()).myses
    assert [view.name for view in views if view.failure is not None] == []
    with closing(sqlite3.connect(where.database)) as connection:
        (written,) = connection.execute("SELECT count(*) FROM memory").fetchone()
    assert written >= MYSES * 2
    for log in (where.log, where.mcp_log):
        assert "is locked" not in log.read_text(encoding="utf-8")
    sys.stdout.write(json.dumps({"myses": MYSES, "memories": written, **found}) + "\n")


async def _searched(url: str, token: str) -> dict[str, Any]:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fakes.mcp_searcher", url, token, str(SEARCHES)),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    out, _ = await child.communicate()
    assert child.returncode == 0
    found: dict[str, Any] = json.loads(out)
    return found
