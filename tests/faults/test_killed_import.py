"""An import killed at any moment leaves whole myses or none. It is repeated without doubling."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.zoea_process import ROOT, environment, zoea
from tests.fakes.nova import nova_database
from tests.transfer.sample_exports import count_rows, export_lines, make_sample_swarm

KILLS = 100 if os.environ.get("ZOEA_SOAK") else 6
COUNTED = ("living", "turn", "memory", "tool_call", "delivery", "message", "memory_blob", "turn_note", "approval")

pytestmark = [pytest.mark.timeout(3600 if KILLS > 10 else 120), pytest.mark.usefixtures("forked_programs")]


def play(*arguments: str) -> list[dict[str, int]]:
    """Return what is stored after each killed import, and after the whole one."""
    command = [sys.executable, "-m", "tests.faults.killed_import", str(KILLS), *arguments]
    ran = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=3000, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    found = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"status"')]
    statuses = [one["status"] for one in found]
    assert len(found) == KILLS + 1
    # What was imported before needs fewer statements, so that the last kills may come too late.
    assert set(statuses) == {0, signal.SIGKILL}, ran.stdout
    assert statuses[: KILLS // 2] == [signal.SIGKILL] * (KILLS // 2)
    return [{name: one["rows"].get(name, 0) for name in COUNTED} for one in found]


def test_a_killed_import_of_lines_stores_all_or_nothing_and_is_repeated_without_doubling(tmp_path: Path) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    database = asyncio.run(make_sample_swarm(folder))
    source = count_rows(database)
    file = tmp_path / "swarm.jsonl"
    file.write_text(export_lines(database, 1, 2), encoding="utf-8")
    stages = play(str(file))
    whole = stages[-1]
    assert (whole["living"], whole["turn"], whole["memory"]) == (2, source["turn"], source["memory"])
    assert whole["memory_blob"] == 2
    assert all(stage == whole or not any(stage.values()) for stage in stages)
    assert not any(stages[0].values())
    assert "skipped alpha: it is here already, as alpha" in zoea("import", str(file)).stdout


def test_a_killed_import_of_a_nova_database_stores_whole_myses_and_goes_on_with_the_others(tmp_path: Path) -> None:
    source = nova_database(tmp_path / "nova.db")
    stages = [(stage["living"], stage["turn"], stage["memory"]) for stage in play("nova", str(source))]
    assert set(stages) <= {(0, 0, 0), (1, 4, 14), (2, 5, 16)}, stages
    assert stages == sorted(stages)
    assert (stages[0], stages[-1]) == ((0, 0, 0), (2, 5, 16))
    again = zoea("import", "nova", str(source))
    assert "skipped alpha: it was imported already, as alpha" in again.stdout
