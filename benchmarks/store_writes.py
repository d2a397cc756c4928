"""What a write costs: ops per second and CPU per op at 1, 64 and 1,000 callers, beside SQLite alone.

    python benchmarks/store_writes.py [--seconds 2] [--directory DIR]

Each op stores one small row. `overhead` is the CPU of both threads per op (process
time) less what the same statement costs in a bare loop inside one transaction.
"busy loop" keeps the event loop's thread computing in slices of 0.5 ms beside 64
callers, as a working swarm does. The directory should be on the disk that counts:
on a memory file system a sync costs nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection

CALLERS = (1, 64, 1000)
BARE_OPS = 20_000
SLICE_SECONDS = 0.0005


@dataclass(frozen=True, slots=True)
class Measured:
    """One row of the table; seconds are of process time but for `p50` and `p99`."""

    name: str
    ops_per_second: float
    cpu_per_op: float
    ops_per_commit: float
    commit_seconds: float
    p50: float
    p99: float


def now() -> int:
    return time.time_ns() // 1000


def op(connection: WriterConnection) -> None:
    connection.execute("INSERT INTO event(mysis_id, kind, data, created_at) VALUES (NULL, 'tick', '{}', 0)")


def bare(connection: WriterConnection) -> float:
    """CPU seconds of one op with nothing around it."""
    begun = time.thread_time()
    for _ in range(BARE_OPS):
        op(connection)
    return (time.thread_time() - begun) / BARE_OPS


async def measure(store: Store, name: str, callers: int, seconds: float, *, busy: bool = False) -> Measured:
    end = time.perf_counter() + seconds
    waits: list[float] = []

    async def caller() -> None:
        while (begun := time.perf_counter()) < end:
            await store.write(op)
            waits.append(time.perf_counter() - begun)

    async def compute() -> float:
        spent = 0.0
        while time.perf_counter() < end:
            begun = time.thread_time()
            while time.thread_time() - begun < SLICE_SECONDS:
                pass
            spent += time.thread_time() - begun
            await asyncio.sleep(0)
        return spent

    commits, committing = store.stats.commits, store.stats.seconds
    begun, cpu = time.perf_counter(), time.process_time()
    elsewhere = asyncio.create_task(compute()) if busy else None
    await asyncio.gather(*(caller() for _ in range(callers)))
    cpu = time.process_time() - cpu
    elapsed = time.perf_counter() - begun
    if elsewhere is not None:
        cpu -= await elsewhere
    commits = store.stats.commits - commits
    waits.sort()
    return Measured(
        name,
        len(waits) / elapsed,
        cpu / len(waits),
        len(waits) / commits,
        (store.stats.seconds - committing) / commits,
        waits[len(waits) // 2],
        waits[len(waits) * 99 // 100],
    )


def micro(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f}"


def show(rows: list[Measured], alone: float) -> None:
    print(f"the same statement in a bare loop: {micro(alone)} us of CPU")
    print(
        f"{'callers':>12} {'ops/s':>9} {'cpu/op us':>10} {'overhead us':>12} {'x bare':>7} {'ops/commit':>11}"
        f" {'commit us':>10} {'p50 us':>9} {'p99 us':>9}"
    )
    for row in rows:
        print(
            f"{row.name:>12} {row.ops_per_second:>9,.0f} {micro(row.cpu_per_op):>10}"
            f" {micro(row.cpu_per_op - alone):>12} {row.cpu_per_op / alone:>7.1f} {row.ops_per_commit:>11.1f}"
            f" {micro(row.commit_seconds):>10} {micro(row.p50):>9} {micro(row.p99):>9}"
        )


async def main(seconds: float, directory: Path) -> None:
    store = await Store.open(directory / "zoea.db", clock_now=now)
    try:
        alone = await store.write(bare)
        rows = [await measure(store, f"{callers:,}", callers, seconds) for callers in CALLERS]
        rows.append(await measure(store, "busy loop", 64, seconds, busy=True))
    finally:
        await store.close()
    show(rows, alone)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Ops per second and CPU per op of the store's writer.")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row of the table")
    parser.add_argument("--directory", type=Path, help="where the database is made; a temporary one by default")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as place:
        asyncio.run(main(arguments.seconds, Path(place)))
