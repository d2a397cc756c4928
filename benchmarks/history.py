"""What the history of a mysis reads and draws, at few and at many commits.

    python -m benchmarks.history [--commits 10000]

Steps of SQLite and statements do not depend on the machine; the times are for comparison. One commit in 50 begins
another branch.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import patch

from msgspec.structs import replace

from benchmarks.chain import build_commit, turn_entries
from zoea.chain.commit import Provenance
from zoea.chain.commit_ops import insert_commit, move_ref
from zoea.process.clock import SystemClock
from zoea.queries import stored_swarm
from zoea.queries.commit_history import ContextHistory, read_history, read_newer, read_older
from zoea.store.database_file import open_reader
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.tui.conversation.history_lines import build_commit_line, count_lanes

PAGE, SCREEN, WIDTH, FEW = 200, 60, 120, 400
EVERY = 100
"""Steps of SQLite between two counts."""
MOST_STATEMENTS = 8
MOST_GROWTH, REF_STEPS = 1.1, 60
"""By how much the steps of opening may grow with the commits, and the steps of each branch."""
MOST_SCREEN_MS = 25.0
_TEMPLATE = "INSERT INTO template VALUES (zeroblob(32), 'miner', '{\"name\": \"miner\"}', 0)"
_MYSIS = """
INSERT INTO mysis(id, uid, name, template_hash, provider, model, state, state_at, created_at)
VALUES (1, 'a', 'alpha', zeroblob(32), '', '', 'idle', 0, 0)
"""


def insert_mysis(conn: WriterConnection) -> None:
    conn.execute(_TEMPLATE)
    conn.execute(_MYSIS)


def insert_commits(conn: WriterConnection, first: int, count: int) -> None:
    """Add commits to the branch of alpha; each 50th stands alone on another branch."""
    row = conn.execute("SELECT commit_seq FROM ctx_ref WHERE name = '@alpha'").fetchone()
    tip = None if row is None else row[0]
    for number in range(first, first + count):
        new = replace(
            build_commit("alpha", turn_entries(number)), parent=tip, provenance=Provenance("alpha", mysis_id=1)
        )
        stored = insert_commit(conn, new)
        if tip is not None and number % 50 == 49:
            move_ref(conn, f"tag/{number}", stored.seq, "benchmark")
        else:
            tip = stored.seq
    if tip is not None:
        move_ref(conn, "@alpha", tip, "benchmark")


def count_reads(work: Callable[[], ContextHistory]) -> tuple[ContextHistory, int, int, float]:
    """Return the result of a read, its steps and statements, and ms of this thread."""
    counts = {"steps": 0, "statements": 0}

    def step() -> int:
        counts["steps"] += EVERY
        return 0

    def tell(statement: str) -> None:
        counts["statements"] += not statement.startswith(("PRAGMA", "--"))

    def opened(path: Path) -> object:
        reader = open_reader(path)
        reader.set_progress_handler(step, EVERY)
        reader.set_trace_callback(tell)
        return reader

    with patch.object(stored_swarm, "open_reader", opened):
        began = time.thread_time()
        found = work()
        took = (time.thread_time() - began) * 1000
    return found, counts["steps"], counts["statements"], took


def draw(history: ContextHistory, first: int) -> float:
    """Return the ms that drawing a screen of rows takes."""
    lanes = count_lanes(history.rows[:PAGE], is_narrow=False)
    began = time.thread_time()
    for at in range(first, min(first + SCREEN, len(history.commits))):
        commit, row = history.commits[at], history.rows[at]
        names = history.refs.get(commit.seq, ())
        build_commit_line(commit, row, names, WIDTH, now=commit.created_at, lanes=lanes, is_marked=False)
    return (time.thread_time() - began) * 1000


async def measure(folder: Path, commits: int) -> list[str]:
    """Measure at few and at many commits. Returns what missed its goal."""
    store = await Store.open(folder / "history.db", clock_now=SystemClock().now)
    missed, before = [], 0
    try:
        await store.write(insert_mysis)
        for first, count in ((0, FEW), (FEW, commits - FEW)):
            await store.write(partial(insert_commits, first=first, count=count))
            history, steps, statements, took = count_reads(lambda: read_history(store.path, 1, PAGE))
            show(first + count, "open", steps, statements, took)
            if statements > MOST_STATEMENTS:
                missed.append(f"opening: {statements} statements, more than {MOST_STATEMENTS}")
            if before and steps > before * MOST_GROWTH + REF_STEPS * commits // 50:
                missed.append(f"opening: {steps:,} steps at {commits:,} commits, {before:,} at {FEW:,}")
            before = steps
            show(first + count, "nothing new", *count_reads(partial(read_newer, store.path, history, PAGE))[1:])
            whole, *counted = count_reads(partial(read_older, store.path, history, commits))
            show(first + count, "all the others", *counted)
            slowest = max(draw(whole, at) for at in range(0, len(whole.commits), SCREEN))
            sys.stdout.write(f"{first + count:>8,}  slowest screen of {SCREEN} rows  {slowest:>8.2f} ms\n")
            if slowest > MOST_SCREEN_MS:
                missed.append(f"a screen of rows: {slowest:.1f} ms, more than {MOST_SCREEN_MS}")
    finally:
        await store.close()
    return missed


def show(commits: int, what: str, steps: float, statements: float, took: float) -> None:
    sys.stdout.write(f"{commits:>8,}  {what:<16}{steps:>12,} steps{statements:>5} statements{took:>10.2f} ms\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=10_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder:
        missed = asyncio.run(measure(Path(folder), asked.commits))
    for line in missed:
        sys.stdout.write(f"missed: {line}\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
