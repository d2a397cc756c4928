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

from tests.fakes.mcp_client import Served, served_swarm

SEARCHER = Path(__file__).parents[1] / "fakes" / "mcp_searcher.py"
SOAK = bool(os.environ.get("ZOEA_SOAK"))
MYSES, SEARCHES = (100, 5_000) if SOAK else (20, 30)


@pytest.mark.timeout(900 if SOAK else 60)
async def test_a_client_in_another_process_searches_while_many_myses_write(tmp_path: Path) -> None:
    wishes = {"swarm.max_myses": MYSES, "budget.swarm_per_day": "none"}
    async with served_swarm(tmp_path, **wishes) as served:
        for number in range(MYSES):
            await served.swarm.create(f"m{number}")
        await served.swarm.send("m0", "The vein of beryllium lies at p16")
        searching = asyncio.create_task(_searched(served))
        rounds = 0
        while not searching.done():
            rounds += 1
            await served.swarm.broadcast(f"Everybody: report your hold, round {rounds}")
            await asyncio.wait({searching}, timeout=0.5)
        found = await searching
        assert (found["searches"], found["failed"]) == (SEARCHES, [])
        for number in range(MYSES):
            await served.swarm.wait(f"m{number}", timeout_s=60)
        views = (await served.swarm.view()).myses
    assert [view.name for view in views if view.failure is not None] == []
    with closing(sqlite3.connect(served.where.database)) as connection:
        (written,) = connection.execute("SELECT count(*) FROM memory").fetchone()
    assert written >= MYSES * 2
    assert "locked" not in served.where.log.read_text(encoding="utf-8")
    sys.stdout.write(json.dumps({"myses": MYSES, "memories": written, **found}) + "\n")


async def _searched(served: Served) -> dict[str, Any]:
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(SEARCHER), served.url, served.reader, str(SEARCHES), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await child.communicate()
    assert child.returncode == 0
    found: dict[str, Any] = json.loads(out)
    return found
