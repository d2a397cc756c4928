"""The dashboard and `zoea list --json` show the same, during a run and after it."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.zoea_process import zoea
from tests.tui.cockpit import cockpit_over
from tests.tui.sample_swarm import CREW, play_sample_swarm
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import MysisView
from zoea.runtime.owner import own_workspace
from zoea.settings.paths import Places, places

COUNTS = ("turns", "tool_calls", "errors", "requests", "tokens", "pending", "approvals")
SAME = ("name", "template", "tags")


async def listed() -> list[dict[str, Any]]:
    """What the command says, in a process of its own."""
    ran = await asyncio.to_thread(zoea, "list", "--json")
    assert ran.returncode == 0, ran.stderr
    found: list[dict[str, Any]] = json.loads(ran.stdout)
    return found


def told(view: MysisView) -> dict[str, Any]:
    """What the cockpit knows of a mysis and the command tells as well."""
    counts = {name: getattr(view, name) for name in COUNTS}
    words = {"state": str(view.state), "status": str(view.status)}
    return {"name": view.name, **words, "template": view.template, "tags": list(view.tags), **counts}


async def test_the_dashboard_and_the_command_line_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = places(configured=False)
    where.make_data()
    with tempfile.TemporaryDirectory(prefix="zoea-") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        async with play_sample_swarm(where.data) as morning:
            inner = morning.inner

            @asynccontextmanager
            async def swarm(_places: Places, _end: Callable[[], None]) -> AsyncIterator[SwarmApi]:
                yield inner.api

            async with (
                own_workspace(places(configured=False), swarm),
                cockpit_over(inner.api, inner.path, clock=inner.clock, inner=inner) as stage,
            ):
                await stage.until(lambda: stage.has(*(name for name, _ in CREW)) and stage.app.approvals.open)
                shown = [told(view) for view in stage.app.feed.in_order()]
                rows = await listed()
                assert [{key: row[key] for key in shown[0]} for row in rows] == shown
                lines = stage.text().splitlines()
                for row in rows:
                    assert any(f" {row['name']} " in line and f" {row['status']} " in line for line in lines), row
                counted = Counter(row["status"] for row in rows)
                assert f"{len(rows)} myses" in lines[0]
                assert all(f" · {counted[word]} {word}" in lines[0] for word in ("working", "waiting"))
        after = await listed()
    # Nobody runs them any more; the requests in flight were counted when they were cut off, and nothing is lost.
    for before, row in zip(shown, after, strict=True):
        assert row["state"] == ("idle" if before["state"] == "running" else before["state"])
        assert {key: row[key] for key in SAME} == {key: before[key] for key in SAME}
        assert all(row[key] >= before[key] for key in COUNTS)
