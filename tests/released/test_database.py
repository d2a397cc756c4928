"""A database of Zoea 0.1.0 opens and shows what it showed then. It goes on with its open turns."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e.zoea_process import PATIENCE_S, spawn, zoea
from tests.released.views import COMMANDS, count_rows, digest_export, read_expected, read_views, read_words, same_view

EPSILON, ZETA, ETA = 5, 6, 7
"""Ids of the myses with a turn that SIGKILL broke off: in a model call, in a tool call, before an approval."""


def json_of(*arguments: str) -> Any:
    done = zoea(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def memories(name: str, turn: int) -> list[dict[str, Any]]:
    done = zoea("log", name, "--turn", str(turn), "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def await_ends(swarm: subprocess.Popen[str], turns: dict[int, int]) -> None:
    """Read events until each mysis of `turns` (by id) has ended so many turns."""
    left = dict(turns)
    assert swarm.stdout is not None
    for line in swarm.stdout:
        event = json.loads(line)
        if event["event"] == "turn.ended" and event["mysis_id"] in left:
            left[event["mysis_id"]] -= 1
        if all(count <= 0 for count in left.values()):
            return
    raise AssertionError(f"the swarm ended before these turns did: {left}")


def test_a_released_database_is_good_and_no_row_of_it_is_lost(migrated: Path) -> None:
    found = json_of("doctor")

    assert found["is_good"]
    assert [one["problem"] for one in found["findings"]] == [""] * len(found["findings"])
    rows = count_rows(migrated)
    expected = read_expected().rows
    assert {name: rows.get(name) for name in expected} == expected


def test_reading_commands_show_what_the_release_showed(migrated: Path) -> None:
    seen = read_views()

    expected = read_expected().views
    for command in COMMANDS:
        assert same_view(command, seen[command], expected[command]), f"{command}: {seen[command]}"


def test_an_export_of_a_released_database_has_the_same_lines(migrated: Path) -> None:
    done = zoea("export", "--all", "--archived", "--format", "jsonl")

    assert done.returncode == 0, done.stderr
    assert digest_export(done.stdout) == read_expected().export


def test_a_released_export_comes_back_after_an_import_elsewhere(migrated: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    assert zoea("export", "--all", "--archived", "--format", "jsonl", "--output", str(file)).returncode == 0
    shown = read_expected().views["export beta --format md --no-redact"]

    imported = zoea("import", str(file), "--workspace", "other")

    assert imported.returncode == 0, imported.stderr
    assert read_words(zoea("export", "beta", "--no-redact", "--workspace", "other").stdout) == read_words(shown)


def test_a_swarm_over_a_released_database_goes_on_with_the_turns_that_were_broken_off(database: Path) -> None:
    swarm = spawn("run", "--headless", "--go-on", "--json")
    try:
        await_ends(swarm, {EPSILON: 2, ZETA: 1})
        waiting = {one["mysis"]: one["id"] for one in json_of("approvals")}
        assert set(waiting) == {"eta", "kappa"}
        json_of("approve", str(waiting["eta"]))
        await_ends(swarm, {ETA: 1})
        assert json_of("stop", "--swarm") is not None
        swarm.communicate(timeout=PATIENCE_S)
    finally:
        if swarm.poll() is None:
            swarm.kill()
            swarm.communicate()

    assert swarm.returncode == 0
    assert [one["content"] for one in memories("epsilon", 2) if one["role"] == "assistant"] == [
        "Say this slowly, second."
    ]
    assert memories("epsilon", 3)[-1]["content"] == "Then say this."
    order, calls, seen, unknown, answer = memories("zeta", 1)
    assert [call["state"] for call in calls["calls"]] == ["done", "unknown"]
    assert seen["content"] == "saw the sun"
    assert unknown["is_error"]
    assert unknown["content"].startswith("unknown: ")
    assert order["role"] == "user"
    assert answer["content"].startswith("Answered prompt e9458025 with result ")
    assert [one["content"] for one in memories("eta", 1) if one["role"] == "tool"] == ["did the trade"]
    assert json_of("doctor")["is_good"]


def test_a_run_with_a_task_counts_the_myses_of_a_released_database(database: Path) -> None:
    done = zoea("run", "--headless", "--myses", "1", "--task", "Say hello.")

    assert done.returncode == 2
    assert "no new mysis takes the task: --myses 1, and there are" in done.stderr
    assert json_of("list")
