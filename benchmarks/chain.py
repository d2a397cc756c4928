"""What commits cost in time and space, against the goals of the chain.

    python -m benchmarks.chain [--commits 10000] [--growth 0]

Times are of the thread that reads or writes, without waits for the disk. `space` is the seed's example: 10 myses take
40 turns each, and read 30 files of 2 to 40 kB in random order. It compares the growth of the database with full
snapshots of the conversation at each commit, as they are and uncompressed. `--growth` adds commits and measures again.
`forks` is the CPU time from the wish for three forks of a conversation of 300 messages until a model that answers at
once has got their first requests. A fork before them is not measured: at their first use a process compiles patterns.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.rig import PlainModel, rig
from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import Checkpoint, CommitNote, CommitType, Provenance
from zoea.chain.commit_ops import NewCommit, prepare_blobs
from zoea.chain.commit_rows import read_commit, read_newest, read_ref, resolve_time, walk_chain
from zoea.chain.entries import ContextCall, ContextEntry, encode_delta
from zoea.model.enums import Role
from zoea.model.request import Answer, ModelRequest, StreamItem
from zoea.model.values import Usage
from zoea.process.clock import SystemClock
from zoea.process.gc_tuning import tuned_gc
from zoea.store.database_file import connect_reader
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence.capture_ops import record_commit

MYSES, TURNS, FILES, SEED = 10, 40, 30, 1
GOALS = {
    "checkpoint p50, ms": 1.0,
    "checkpoint p99, ms": 10.0,
    "walk of 1,000, ms": 5.0,
    "resolve, ms": 0.1,
    "materialize 1,000, ms": 50.0,
}
TOGETHER = 64
"""Commits that wait for the disk together, as those of a swarm do."""
LEAST_DISK, LEAST_PAYLOAD = 25.0, 10.0
FORKS, FORKED_COMMITS, MOST_FORK_MS = 3, 100, 1000.0


def build_commit(name: str, entries: list[ContextEntry]) -> NewCommit:
    """Return a commit with its blobs ready."""
    delta = encode_delta(entries)
    blob, lifted = prepare_blobs(delta.data, delta.lifted)
    return NewCommit(
        None,
        CommitType.DELTA,
        "zoea-v1",
        blob,
        lifted,
        Checkpoint.TURN_BOUNDARY,
        Provenance(name, "benchmark"),
        len(entries),
        sum(entry.token_count for entry in entries),
        CommitNote("a summary of what was said and done in it"),
    )


def turn_entries(number: int) -> list[ContextEntry]:
    call = ContextCall("look", f'{{"sector": {number}}}')
    return [
        ContextEntry(
            Role.USER, f"Turn {number}: go on, and tell what you find in the next sector.", "direct", at=number
        ),
        ContextEntry(Role.ASSISTANT, f"I look at sector {number}.", "llm", calls=(call,), at=number),
        ContextEntry(Role.TOOL, f"Sector {number} holds iron and a station. " * 8, "tool", position=0, at=number),
    ]


async def grow(store: Store, name: str, begin: int, count: int) -> list[float]:
    """Add commits of one turn each. Return the ms that each took in the writer thread."""
    times: list[float] = []

    def write(conn: WriterConnection, new: NewCommit) -> None:
        began = time.thread_time()
        record_commit(conn, name, new)
        times.append((time.thread_time() - began) * 1000)

    for first in range(begin, begin + count, TOGETHER):
        numbers = range(first, min(first + TOGETHER, begin + count))
        news = [build_commit(name, turn_entries(number)) for number in numbers]
        await asyncio.gather(*(store.write(partial(write, new=new)) for new in news))
    return times


def measure(work: Callable[[], object], rounds: int = 9) -> float:
    """Return the median of the ms that some work takes in this thread."""
    times = []
    for _ in range(rounds):
        began = time.thread_time()
        work()
        times.append((time.thread_time() - began) * 1000)
    return median(times)


async def measure_times(folder: Path, commits: int, growth: int) -> dict[str, float]:
    """Measure at so many commits, and again after more."""
    store = await Store.open(folder / "times.db", clock_now=SystemClock().now)
    found: dict[str, float] = {}
    try:
        for begin, count in ((0, commits), (commits, growth)):
            if not count:
                continue
            times = sorted(await grow(store, "alpha", begin, count))
            found = {
                "commits": begin + count,
                "checkpoint p50, ms": median(times),
                "checkpoint p99, ms": times[int(len(times) * 0.99)],
                **read_times(store.path),
            }
            show(found)
    finally:
        await store.close()
    return found


def read_times(path: Path) -> dict[str, float]:
    with closing(connect_reader(path)) as conn:
        tip = read_ref(conn, "@alpha") or 0
        commit, stop = read_commit(conn, tip), read_commit(conn, tip - 999)
        assert commit is not None
        at = commit.created_at - 1_000_000
        return {
            "walk of 1,000, ms": measure(lambda: walk_chain(conn, tip, limit=1000)),
            "resolve, ms": measure(lambda: resolve_time(conn, "alpha", at)),
            "materialize 1,000, ms": measure(lambda: ChainReader(conn).materialize(commit, stop=stop)),
            "log of 50, ms": measure(lambda: read_newest(conn, 50)),
        }


class TimedModel(PlainModel):
    """Notes the CPU time of each request."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []
        self.messages: list[int] = []
        self.has_all = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        self.times.append(time.process_time())
        self.messages.append(len(request.messages))
        if len(self.times) == FORKS:
            self.has_all.set()
        yield Answer(text="yes", usage=Usage(100, 0, 10, 0))


async def measure_forks() -> dict[str, float]:
    """Return this process's CPU for all forks, ms, and the fewest messages that one knows."""
    model = TimedModel()
    async with rig(model) as running:
        await grow(running.store, "alpha", 0, FORKED_COMMITS)
        warm = await running.commander.create("warm-up", commit="@alpha")
        await running.turn(warm.id, "go on")
        model.times.clear()
        model.messages.clear()
        began = time.process_time()
        for number in range(FORKS):
            made = await running.commander.create(f"fork-{number}", commit="@alpha")
            await running.commander.send(made.name, "try it differently")
        await model.has_all.wait()
        spent = (max(model.times[:FORKS]) - began) * 1000
    return {"forks, ms": spent, "forks, messages": min(model.messages[:FORKS])}


async def measure_space(folder: Path) -> dict[str, float]:
    """Return the bytes of the seed's example as commits and as full snapshots."""
    chance = random.Random(SEED)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(3000)]
    files = []
    for _ in range(FILES):
        size, text = chance.randint(2_000, 40_000), ""
        while len(text) < size:
            text += f"{' '.join(chance.choices(words, k=9))}\n"
        files.append(text[:size])
    store = await Store.open(folder / "space.db", clock_now=SystemClock().now)
    path, snapshots, payload = store.path, 0, 0
    empty = await size_of(store)
    seen: set[bytes] = set()
    for mysis in range(MYSES):
        whole = 0
        for turn in range(TURNS):
            number = chance.randrange(FILES)
            asked = [
                ContextEntry(Role.USER, f"Turn {turn}: read file {number} and say what it is about.", "direct"),
                ContextEntry(
                    Role.ASSISTANT, "I read it.", "llm", calls=(ContextCall("read", f'{{"file": {number}}}'),)
                ),
            ]
            told = [
                ContextEntry(Role.TOOL, files[number], "tool", position=0),
                ContextEntry(Role.ASSISTANT, f"File {number} is about {' '.join(chance.choices(words, k=40))}.", "llm"),
            ]
            for entries in (asked, told):
                new = build_commit(f"mysis-{mysis}", entries)
                await store.write(partial(record_commit, name=f"mysis-{mysis}", new=new))
                whole += sum(len(one.content) + sum(len(c.arguments) for c in one.calls) for one in entries)
                snapshots += whole
                for blob in (new.blob, *new.lifted):
                    payload += 0 if blob.digest in seen else blob.size
                    seen.add(blob.digest)
    disk = await size_of(store) - empty
    await store.close()
    assert path.exists()
    return {
        "full snapshots, bytes": snapshots,
        "payload, bytes": payload,
        "on disk, bytes": disk,
        "payload ratio": snapshots / payload,
        "disk ratio": snapshots / disk,
    }


async def size_of(store: Store) -> int:
    """Return the bytes of the pages in use."""
    rows = await store.read("SELECT page_count * page_size AS size FROM pragma_page_count(), pragma_page_size()")
    return int(rows[0]["size"])


def count_turns(turns: int = 100, checkpoints: int = 20) -> tuple[int, int]:
    """Return the turns stored by deltas and by full snapshots."""
    each = turns // checkpoints
    return turns, sum(each * (number + 1) for number in range(checkpoints))


def show(values: dict[str, float]) -> None:
    for name, value in values.items():
        sys.stdout.write(f"{name:<24}{value:>14,.3f}\n" if value < 100 else f"{name:<24}{value:>14,.0f}\n")
    sys.stdout.write("\n")


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--growth", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder, tuned_gc():
        times = await measure_times(Path(folder), asked.commits, asked.growth)
        space = await measure_space(Path(folder))
    forks = await measure_forks()
    show(space)
    show(forks)
    deltas, snapshots = count_turns()
    sys.stdout.write(f"100 turns in 20 checkpoints: {deltas:,} turns stored, {snapshots:,} by full snapshots\n")
    missed = [f"{name}: {times[name]:.3f}, not under {goal}" for name, goal in GOALS.items() if times[name] >= goal]
    missed += [f"disk ratio {space['disk ratio']:.1f}"] if space["disk ratio"] < LEAST_DISK else []
    missed += [f"payload ratio {space['payload ratio']:.1f}"] if space["payload ratio"] < LEAST_PAYLOAD else []
    missed += [f"forks {forks['forks, ms']:,.0f} ms"] if forks["forks, ms"] >= MOST_FORK_MS else []
    missed += ["forks know too little"] if forks["forks, messages"] < 3 * FORKED_COMMITS else []
    for line in missed:
        sys.stdout.write(f"missed: {line}\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
