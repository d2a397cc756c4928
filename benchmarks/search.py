"""How fast memory answers, and what its indexes cost: at 100 thousand memories, a million, five million.

    python -m benchmarks.search [--memories N] [--million] [--full] [--keep FILE]

A swarm of 100 myses is written as a swarm writes: prompts, answers with reasoning and
calls, results of tools, in words as frequent as words are, in transactions of 32. One
mysis has a sixteenth of it all. Every search is asked many times, each time for another
text where that is possible; beside it stands the plain scan with `instr`, over the same
database in the same run. `any case` is how the cockpit and `zoea search` ask by default:
in content, calls and reasoning. The smallest database is asked once more while another
process writes to it, as a swarm that runs does. `--full` goes through all three sizes.
`--keep` builds into FILE, or asks the one built there before, to which nothing is written.

The goals are those of a million memories; a smaller run is held to the same times, a
larger one to none. The exit code is 1 where one is missed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.cost import machine, quantile
from zoea.store.migrate import migrate
from zoea.store.search import MatchMode, MemoryQuery, SearchColumn, fts_index, search_memories

MYSES = 100
GROUP = 32
SAMPLE = 6_000
TALKER = 1
"""The mysis with a sixteenth of all memories."""
GOALS = {
    "rare_ms": 2.0,
    "absent_rare_ms": 1.0,
    "absent_common_ms": 25.0,
    "one_mysis_ms": 4.0,
    "index_share": 0.8,
    "times_scan": 200.0,
}
AT_LEAST = ("times_scan",)
RARE = "zquixote"
ABSENT = "qxzjvkw"
COMMON = 40
WAYS: dict[str, dict[str, Any]] = {
    "exact": {},
    "ranked": {"match": MatchMode.RANKED},
    "any case": {"fold": True, "column": SearchColumn.ANY},
}
BESIDE_AT = 100_000
"""Up to so many memories are asked for once more beside a writer."""
GROUPS_S = 20
"""Transactions a second that the writer makes, of `GROUP` memories each."""

_WHERE = (
    "instr(m.content, :q) > 0 OR (m.role = 'assistant' AND EXISTS (SELECT 1 FROM tool_call k"
    " WHERE k.memory_id = m.id AND instr(k.name || '(' || k.arguments || ')', :q) > 0))"
)


class Words:
    """Made-up words, few of which are most of a text, as in any language."""

    def __init__(self) -> None:
        self.random = random.Random(7)
        parts = [a + b for a in "bcdfglmnprst" for b in ("a", "e", "i", "o", "u", "an", "er", "or")]
        self.all = list(dict.fromkeys("".join(self.random.choices(parts, k=2 + n % 3)) for n in range(30_000)))
        self.weights = [1 / (place + 3) for place in range(len(self.all))]

    def text(self, count: int) -> str:
        return " ".join(self.random.choices(self.all, cum_weights=self._cumulated, k=count))

    @property
    def _cumulated(self) -> list[float]:
        if not hasattr(self, "_sums"):
            total, self._sums = 0.0, []
            for weight in self.weights:
                total += weight
                self._sums.append(total)
        return self._sums


@dataclass(frozen=True, slots=True)
class Row:
    mysis: int
    role: str
    content: str
    reasoning: str = ""
    arguments: str = ""


def rows(words: Words, memories: int) -> Iterator[Row]:
    """Turn by turn: a prompt, an answer with a thought and a call, the result, the last answer."""
    pick = words.random
    rare = set(pick.sample(range(memories), 12))
    for number in range(0, memories, 4):
        mysis = TALKER if pick.random() < 1 / 16 else pick.randint(2, MYSES)
        name, place = words.all[number % 5_000], words.text(1)
        found = " ".join((words.text(25), *(RARE for each in range(number, number + 4) if each in rare)))
        result = json.dumps({"tick": number, "place": place, "cargo": {name: number % 97}, "news": words.text(35)})
        yield Row(mysis, "user", words.text(20))
        yield Row(mysis, "assistant", words.text(8), words.text(30), json.dumps({"target": place, "n": number}))
        yield Row(mysis, "tool", result)
        yield Row(mysis, "assistant", found, words.text(15))


def blank(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=64)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")  # what a sync costs is not asked here
    migrate(connection, path)
    connection.execute("INSERT INTO template VALUES (zeroblob(32), 'default', '', 1)")
    for number in range(1, MYSES + 1):
        connection.execute(
            "INSERT INTO mysis(id, uid, name, template_hash, provider, model, state, state_at, created_at)"
            " VALUES (?, ?, ?, zeroblob(32), 'p', 'm', 'idle', 1, 1)",
            (number, f"u{number}", f"m{number}"),
        )
        connection.execute("INSERT INTO tally(mysis_id) VALUES (?)", (number,))
        connection.execute(
            "INSERT INTO turn(id, mysis_id, number, opened_by, frozen, outcome, opened_at, ended_at)"
            " VALUES (?, ?, 1, 'prompt', '{}', 'answered', 1, 1)",
            (number, number),
        )
    return connection


def write(connection: sqlite3.Connection, given: Sequence[Row], group: int, *, first: int) -> None:
    for start in range(0, len(given), group):
        connection.execute("BEGIN IMMEDIATE")
        for number, row in enumerate(given[start : start + group], first + start):
            source = {"user": "direct", "assistant": "llm", "tool": "tool"}[row.role]
            memory_id = connection.execute(
                "INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, reasoning, tokens, created_at)"
                " VALUES (?,?,?,?,?,?,?,1,?)",
                (row.mysis, row.mysis, number, row.role, source, row.content, row.reasoning, number),
            ).lastrowid
            if row.arguments:
                connection.execute(
                    "INSERT INTO tool_call(memory_id, position, name, arguments, fingerprint, state)"
                    " VALUES (?, 0, 'mine', ?, x'00', 'done')",
                    (memory_id, row.arguments),
                )
        fts_index.catch_up(connection)  # as the writer does
        connection.execute("COMMIT")


def write_cost(folder: Path, words: Words) -> None:
    """Print the CPU of storing a memory with no index, the exact one, and both. Alone and in groups."""
    given = list(rows(words, SAMPLE))
    whole = fts_index._CATCH_UP
    exact = tuple(each for each in whole if "_words(" not in each)
    for group in (1, GROUP):
        costs = []
        for name, statements in (("none", ()), ("exact", exact), ("both", whole)):
            fts_index._CATCH_UP = statements
            with closing(blank(folder / f"write-{group}-{name}.db")) as connection:
                for trigger in ("memory_search_insert", "call_search_insert") if name == "none" else ():
                    connection.execute(f"DROP TRIGGER {trigger}")
                begun = time.process_time()
                write(connection, given, group, first=1)
                costs.append((time.process_time() - begun) / SAMPLE * 1e6)
        print(
            f"write     {group:2} a transaction: {costs[0]:.0f} us of CPU a memory without an index,"
            f" {costs[1]:.0f} with the exact one, {costs[2]:.0f} with both",
            flush=True,
        )
    fts_index._CATCH_UP = whole


def build(path: Path, words: Words, memories: int, *, group: int = GROUP) -> None:
    """Write a swarm's memory, so many memories in a transaction. Larger groups than a swarm's are made sooner."""
    with closing(blank(path)) as connection:
        begun, done, batch = time.monotonic(), 0, list[Row]()
        for row in rows(words, memories):
            batch.append(row)
            if len(batch) == 8_000:
                write(connection, batch, group, first=done + 1)
                done += len(batch)
                batch = []
                if done % 200_000 == 0:
                    print(f"built     {done:,} in {time.monotonic() - begun:.0f} s", flush=True)
        write(connection, batch, group, first=done + 1)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute("ANALYZE")


def sizes(connection: sqlite3.Connection) -> float:
    """Print the size of the text, and the indexes as shares of it. Return the share of the exact one."""
    text = connection.execute(
        "SELECT (SELECT sum(length(CAST(content AS BLOB)) + length(CAST(reasoning AS BLOB))) FROM memory)"
        " + (SELECT sum(length(name) + length(arguments)) FROM tool_call)"
    ).fetchone()[0]
    parts = {
        name: connection.execute(f"SELECT sum(length(block)) FROM {name}_data").fetchone()[0]
        for name in ("memory_exact", "call_exact", "memory_words")
    }
    exact, words = parts["memory_exact"] + parts["call_exact"], parts["memory_words"]
    print(f"size      text {text / 1e6:,.0f} MB, exact index {exact / text:.2f} of it, words {words / text:.2f}")
    return float(exact / text)


def timed(ask: Callable[[str], int], texts: Sequence[str]) -> tuple[float, float, int]:
    """p50 and p95 in ms, and how many hits there were."""
    spent, hits = [], 0
    for text in texts:
        begun = time.perf_counter()
        hits += ask(text)
        spent.append((time.perf_counter() - begun) * 1e3)
    return quantile(spent, 0.5), quantile(spent, 0.95), hits


def asked_for(connection: sqlite3.Connection, words: Words) -> dict[str, list[str]]:
    """What is searched, by kind: 200 texts of each, or 50 that cost more."""
    pick = random.Random(3)
    newest = connection.execute("SELECT max(id) FROM memory").fetchone()[0]
    phrases: list[str] = []
    while len(phrases) < 200:
        (said,) = connection.execute("SELECT content FROM memory WHERE id = ?", (pick.randint(1, newest),)).fetchone()
        start, length = pick.randrange(max(1, len(said) - 10)), pick.randint(3, 40)
        phrases.append(said[start : start + length])
    common = words.all[:COMMON]
    return {
        "rare": [RARE] * 200,
        "common": common * 5,
        "absent, of rare trigrams": [f"{ABSENT}{number}" for number in range(200)],
        "absent, of common words": [" ".join(pick.sample(common, 3)) + "?" for _ in range(50)],
        "any phrase": phrases,
    }


def searched(
    connection: sqlite3.Connection, name: str, texts: Sequence[str], owners: tuple[int, ...] | None, way: str
) -> float:
    """Search for each of the texts and say how long that took: p50 in ms."""

    def ask(text: str) -> int:
        return len(search_memories(connection, MemoryQuery(text, mysis_ids=owners, **WAYS[way])).hits)

    p50, p95, hits = timed(ask, texts)
    whose = "one mysis" if owners else "swarm"
    print(f"search    {name:25} {whose:9} {way:8}  p50 {p50:8.2f} ms  p95 {p95:8.2f} ms  {hits} hits")
    return p50


def measure(connection: sqlite3.Connection, words: Words) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, texts in asked_for(connection, words).items():
        for whose, owners in (("swarm", None), ("one mysis", (TALKER,))):
            for way in WAYS:
                found[f"{name}/{whose}/{way}"] = searched(connection, name, texts, owners, way)
        p50, _, hits = timed(lambda text: scan(connection, text), texts[:2])
        found[f"{name}/scan"] = p50
        print(f"search    {name:25} swarm     scan      p50 {p50:8.2f} ms  {'':18}{hits} hits", flush=True)
    return found


def measure_beside(path: Path, words: Words) -> None:
    """Measure the same file while another process writes to it, as a workspace's owner does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection, a_writer(path) as written:
        asked, before, begun = asked_for(connection, words), written(), time.monotonic()
        print(f"beside    a writer, {GROUPS_S} transactions of {GROUP} memories a second")
        for name, texts in asked.items():
            for way in WAYS:
                searched(connection, name, texts[:50], None, way)
        rate = (written() - before) / (time.monotonic() - begun)
        print(f"beside    it wrote {rate:,.0f} memories a second meanwhile", flush=True)


@contextmanager
def a_writer(path: Path) -> Iterator[Callable[[], int]]:
    """A process that writes while the block runs; how many memories there are by now."""
    spawning = multiprocessing.get_context("spawn")
    begun, ending = spawning.Event(), spawning.Event()
    writer = spawning.Process(target=keep_writing, args=(path, begun, ending), daemon=True)
    writer.start()
    try:
        if not begun.wait(timeout=60):
            raise RuntimeError("the writer did not begin within a minute")
        with closing(sqlite3.connect(path)) as reader:
            yield lambda: int(reader.execute("SELECT max(id) FROM memory").fetchone()[0])
    finally:
        ending.set()
        writer.join(timeout=60)


def keep_writing(path: Path, begun: Any, ending: Any) -> None:
    """In a process of its own: a group of memories, each as durable as a swarm's, until it is told to end."""
    words = Words()
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30.0)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        first = connection.execute("SELECT max(id) + 1 FROM memory").fetchone()[0]
        for number in count():
            write(connection, list(rows(words, GROUP)), GROUP, first=first + number * GROUP)
            begun.set()
            if ending.wait(timeout=1 / GROUPS_S):
                break


def scan(connection: sqlite3.Connection, text: str) -> int:
    sql = f"SELECT m.id FROM memory m WHERE {_WHERE} ORDER BY m.id DESC LIMIT 20"
    return len(connection.execute(sql, {"q": text}).fetchall())


def judge(found: dict[str, float]) -> int:
    """Say which goals were met; 1 where one was not."""
    missed = 0
    for name, value in found.items():
        met = value >= GOALS[name] if name in AT_LEAST else value <= GOALS[name]
        missed += not met
        bound = "at least" if name in AT_LEAST else "at most"
        print(f"{'met' if met else 'missed':7} {name} {value:.3g} (the goal: {bound} {GOALS[name]:g})")
    return 1 if missed else 0


def run(path: Path, memories: int, *, is_kept: bool) -> int:
    words = Words()
    if not path.exists():
        build(path, words, memories)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        stored = connection.execute("SELECT count(*) FROM memory").fetchone()[0]
        print(f"memories  {stored:,}", flush=True)
        share = sizes(connection)
        found = measure(connection, words)
    if stored <= BESIDE_AT and not is_kept:
        measure_beside(path, words)
    goals = {
        "rare_ms": found["rare/swarm/exact"],
        "absent_rare_ms": found["absent, of rare trigrams/swarm/exact"],
        "absent_common_ms": found["absent, of common words/swarm/exact"],
        "one_mysis_ms": max(found["rare/one mysis/exact"], found["common/one mysis/exact"]),
        "index_share": share,
    }
    if stored >= 1_000_000:
        goals["times_scan"] = found["rare/scan"] / found["rare/swarm/exact"]
    return judge(goals) if stored <= 1_000_000 else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="How fast memory answers, and what its indexes cost.")
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--million", action="store_true", help="a million as well: 1 GB of disk, some minutes")
    parser.add_argument("--full", action="store_true", help="a million and five as well: 6 GB of disk, an hour")
    parser.add_argument("--keep", type=Path, help="build into this file, or ask the one that is there")
    asked = parser.parse_args()
    print(f"machine   {json.dumps(machine())}", flush=True)
    missed = 0
    wanted = [asked.memories]
    if asked.million or asked.full:
        wanted.append(1_000_000)
    if asked.full:
        wanted.append(5_000_000)
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as place:
        write_cost(Path(place), Words())
        for memories in wanted:
            path = asked.keep or Path(place) / f"{memories}.db"
            missed += run(path, memories, is_kept=asked.keep is not None)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
