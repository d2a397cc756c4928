"""Measure how soon the cockpit shows a large swarm, and what `zoea log` costs.

    python -m benchmarks.large_start [--quick]

The database holds 1,000 myses and a million memories (a tenth of both with --quick); one mysis has 62,000 of them.
The figures are medians of CPU, in steps of 10 ms. The exit code is 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.cost import child_cpu, machine
from benchmarks.terminal import Terminal

ROOT = Path(__file__).parents[1]
ZOEA = [sys.executable, "-m", "zoea"]
LONG, SHORT, TURN = 62_000, 100, 10
"""Memories of the long and of the short conversation, and of a turn."""
GOALS = {"rows_cpu_ms": 600.0, "log_times_short": 1.3}
ROUNDS = 5


def environment(home: str) -> dict[str, str]:
    """Return the environment of a workspace of its own. It has bytecode and no search for model servers."""
    return {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "PYTHONPYCACHEPREFIX": f"{home}/bytecode",
        "PYTHONPATH": str(ROOT),
        "LANG": "C.UTF-8",
        "ZOEA_DATA_DIR": f"{home}/data",
        "ZOEA_CONFIG_DIR": f"{home}/config",
        "XDG_RUNTIME_DIR": home,
        "ZOEA_SWARM__MAX_MYSES": "2000",
        "ZOEA_SWARM__DISCOVER": "false",
    }


def build(home: str, myses: int, memories: int) -> None:
    """Create one mysis by a run, copy it, and write conversations by SQL. This takes seconds instead of hours."""
    one = [*ZOEA, "run", "--headless", "--myses", "1", "--provider", "autopilot", "--for", "200ms"]
    subprocess.run(one, env=environment(home), check=True, capture_output=True)
    with closing(sqlite3.connect(f"{home}/data/zoea.db", isolation_level=None)) as connection:
        names = [row[1] for row in connection.execute("PRAGMA table_info(mysis)") if row[1] != "id"]
        fresh = {"uid": "?1", "name": "?2"}
        copied = ", ".join(fresh.get(name, name) for name in names)
        connection.execute("BEGIN")
        connection.executemany(
            f"INSERT INTO mysis({', '.join(names)}) SELECT {copied} FROM mysis WHERE id = 1",
            [(f"uid-{number:026}", f"m{number:04}") for number in range(2, myses + 1)],
        )
        connection.execute("INSERT INTO tally(mysis_id) SELECT id FROM mysis WHERE id > 1")
        [[trigger]] = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'memory_search_insert'")
        connection.execute("DROP TRIGGER memory_search_insert")  # what is indexed does not matter here
        connection.execute("DELETE FROM turn")
        connection.executemany(
            "INSERT INTO turn(id, mysis_id, number, opened_by, frozen, outcome, opened_at, ended_at)"
            " VALUES (?, ?, ?, 'prompt', '{}', 'answered', 1, 1)",
            turns(myses, memories),
        )
        connection.executemany(
            "INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, tokens, created_at)"
            " SELECT mysis_id, id, ?2, ?3, ?4, 'All is well at belt ' || id, 8, 1 FROM turn WHERE id = ?1",
            (
                (turn, seq, *(("user", "direct") if seq == 0 else ("assistant", "llm")))
                for turn, *_ in turns(myses, memories)
                for seq in range(TURN)
            ),
        )
        connection.execute(trigger)
        connection.execute("COMMIT")


def turns(myses: int, memories: int) -> Iterator[tuple[int, int, int]]:
    """Yield id, mysis and number of each turn: the first mysis talks long, the second little, all others alike."""
    long = min(LONG, memories // 2)
    each = (memories - long) // max(1, myses - 2)
    turn = 0
    for mysis in range(1, myses + 1):
        share = long if mysis == 1 else SHORT if mysis == 2 else each
        for number in range(1, share // TURN + 1):
            turn += 1
            yield turn, mysis, number


def measure_rows(home: str) -> float:
    """Return ms of CPU from the start of `zoea run` until a row is shown."""
    terminal = Terminal([*ZOEA, "run"], environment=environment(home), screen_is_stdout=True)
    try:
        terminal.wait_for("m0002")
        return child_cpu(terminal.process.pid) * 1e3
    finally:
        terminal.close()


def measure_log(home: str, name: str) -> float:
    """Return ms of CPU of `zoea log` for one mysis."""
    before = os.times()
    subprocess.run([*ZOEA, "log", name], env=environment(home), check=True, capture_output=True)
    after = os.times()
    return (after.children_user + after.children_system - before.children_user - before.children_system) * 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description="A cockpit and a log over a large swarm.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the myses and memories")
    share = 10 if parser.parse_args().quick else 1
    myses, memories = 1_000 // share, 1_000_000 // share
    print(f"machine   {json.dumps(machine())}", flush=True)
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as home:
        build(home, myses, memories)
        measure_rows(home)  # writes bytecode and fills caches
        rows = statistics.median(measure_rows(home) for _ in range(ROUNDS))
        long, short = (statistics.median(measure_log(home, ref) for _ in range(ROUNDS)) for ref in ("#1", "#2"))
    figures = {
        "myses": myses,
        "memories": memories,
        "rows_cpu_ms": round(rows),
        "log_long_cpu_ms": round(long),
        "log_short_cpu_ms": round(short),
        "log_times_short": round(long / short, 2),
    }
    print(f"start     {json.dumps(figures)}")
    print(f"machine   {json.dumps(machine())}")
    missed = [name for name, goal in GOALS.items() if figures[name] > goal]
    for name, goal in GOALS.items():
        print(f"{'missed' if name in missed else 'met':7} {name} {figures[name]:g} (the goal: at most {goal:g})")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
