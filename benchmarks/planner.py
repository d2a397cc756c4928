"""Goals of the planner: what planning, recall, estimating, shaping and publishing take.

Run: `python -m benchmarks.planner [--memories 1000000]`. One mysis has so many memories; a second database with 10,000
shows that planning does not depend on that number.
Planning, estimating and shaping are counted in CPU, recall in time. Goals (exit code 1 where one
is missed):

- planning a request from its answers: under 2 ms at p99, and with the reading of its answers at most twice as long
  with all memories as with 10,000;
- recall: under 100 ms at p95, in a reader beside the event loop, which it never holds up for over 25 ms;
- estimating 1,000 messages: under 5 ms, and under 1 ms where they were measured before; shaping their conversation:
  under 1 ms more;
- publishing to 20 subscribers: under 3 ms of CPU with its commit.

Beside them stands the whole path of a request of the strategy `window` from its stored history to its plan (reading,
shaping, with the summary that an earlier turn stored), as p50 and p95 of 200 runs for conversations of four lengths.
What a whole turn takes is a column of `benchmarks.sessions`.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.planning import turn
from benchmarks.rig import PlainModel, rig
from benchmarks.search import RARE, Words, blank
from zoea.context import (
    FrozenTurn,
    Need,
    NeedAnswer,
    ShownConversation,
    StoredAnswer,
    TurnRecord,
    TurnSoFar,
    WindowRules,
    missing_needs,
    plan_turn,
)
from zoea.context.needs import MemoriesById
from zoea.context.window import window_estimate
from zoea.context.window.conversation_shape import Conversation, ConversationShape, SummaryRange, shape_conversation
from zoea.context.window.conversation_summary import compose_summary, digest_messages, read_digest, write_digest
from zoea.context.window.window_estimate import estimate_messages
from zoea.model.enums import Role, Source
from zoea.model.values import COMMANDER, Memory
from zoea.store.search import find_related, fts_index
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import topic_ops, turn_records, window_ops

FEW = 10_000
PER_TURN, BATCH = 4, 8_000
PROMPT = "What did we say about the harbour, and where is the ore that pays best?"
_MEMORY = (
    "INSERT INTO memory(id, mysis_id, turn_id, seq, role, source, content, tokens, created_at)"
    " VALUES (?,1,?,?,?,?,?,1,?)"
)
_TURN = (
    "INSERT INTO turn(id, mysis_id, number, opened_by, frozen, outcome, opened_at, ended_at)"
    " VALUES (?, 1, ?, 'prompt', '{}', 'answered', 1, 1)"
)


def build(path: Path, memories: int, words_each: int = 20) -> None:
    """Write a mysis with so many memories: turns of two prompts with an answer each."""
    words = Words()
    with closing(blank(path)) as connection:
        connection.execute("DELETE FROM turn WHERE mysis_id = 1")
        first_turn = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM turn").fetchone()[0]
        for start in range(0, memories, BATCH):
            connection.execute("BEGIN IMMEDIATE")
            turns, rows = [], []
            for number in range(start, min(start + BATCH, memories)):
                turn_id = first_turn + number // PER_TURN
                if number % PER_TURN == 0:
                    turns.append((turn_id, number // PER_TURN + 1))
                is_prompt = number % 2 == 0
                said = words.text(words_each) + (f" {RARE}" if number % 40_001 == 7 else "")
                role, source = ("user", "direct") if is_prompt else ("assistant", "llm")
                rows.append((number + 1, turn_id, number % PER_TURN + 1, role, source, said, number + 1))
            connection.executemany(_TURN, turns)
            connection.executemany(_MEMORY, rows)
            fts_index.catch_up(connection)
            connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute("ANALYZE")


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def timed(work: Callable[[], object], count: int) -> list[float]:
    """Return the CPU that each of the calls took, ms: what else the machine does counts for nothing."""
    found = []
    for _ in range(count):
        begun = time.thread_time()
        work()
        found.append((time.thread_time() - begun) * 1000)
    return found


def measure_planning() -> float:
    """Return the p99 of a plan from its answers, ms. The turn has 21 messages."""
    frozen, answers = turn(21, 1_000)
    return percentile(timed(lambda: plan_turn(frozen, answers), 2_000), 0.99)


def measure_reading(path: Path) -> float:
    """Return the median of reading a new turn's answers and planning its first request, ms."""
    with closing(sqlite3.connect(path, factory=WriterConnection)) as connection:
        newest, last_turn = connection.execute("SELECT max(id), max(turn_id) FROM memory WHERE mysis_id = 1").fetchone()
        frozen = FrozenTurn(1, last_turn + 1, 10**6, system="s" * 2_000, before=newest, max_tokens=50_000)
        prompt = Memory(newest + 1, 1, last_turn + 1, 10**6, 1, Role.USER, Source.DIRECT, PROMPT)

        def read_and_plan() -> None:
            known = turn_records.read_before_opened(connection, 1, missing_needs(frozen))
            plan_turn(frozen, {**known.answers, TurnSoFar(frozen.turn_id): TurnRecord((prompt,))})

        return statistics.median(timed(read_and_plan, 300))


async def measure_path(path: Path) -> list[float]:
    """Return the times of requests of the strategy `window`, from stored history to plan, ms."""
    store = await Store.open(path, clock_now=lambda: 10**9)
    try:
        row = (await store.read("SELECT max(id), max(turn_id) FROM memory WHERE mysis_id = 1"))[0]
        newest, turn_id, rules = row[0], row[1] + 1, WindowRules()
        frozen = FrozenTurn(
            1, turn_id, 10**6, system="s" * 2_000, before=newest, max_tokens=25_000, strategy="window", window=rules
        )
        prompt = Memory(newest + 1, 1, turn_id, 10**6, 1, Role.USER, Source.DIRECT, PROMPT)
        taken = []
        for number in range(201):
            begun = time.perf_counter()
            conversation = (await window_ops.read_conversation(store, frozen, newest, rules)).conversation()
            shape = shape_conversation(rules, conversation, budget=frozen.max_tokens, overhead=600)
            if number == 0 and shape.is_due:  # the turn that writes it is not measured
                await store.write(partial(window_ops.store_range, mysis_id=1, new=write_summary(shape), kept=0))
                continue
            assert not shape.is_due
            plan_turn(frozen, answer_view(frozen, shape, prompt))
            taken.append((time.perf_counter() - begun) * 1000)
        return taken
    finally:
        await store.close()


def write_summary(shape: ConversationShape) -> SummaryRange:
    places = [(memory.turn_id, memory.seq) for memory in shape.middle]
    size = int(sum(map(window_estimate.estimate_memory, shape.middle)))
    return SummaryRange(0, min(places), max(places), len(places), size, write_digest(digest_messages(shape.middle)))


def answer_view(frozen: FrozenTurn, shape: ConversationShape, prompt: Memory) -> dict[Need, NeedAnswer]:
    """Return the answers of a turn whose conversation has this shape."""
    shown = (*shape.primers, *shape.recents)
    ids = tuple(memory.id for memory in shown)
    digests = [read_digest(one.text, one.messages) for one in shape.ranges]
    view = {
        "primers": ids[: len(shape.primers)],
        "recents": ids[len(shape.primers) :],
        "elided": [],
        "summary": compose_summary(digests, shape.summary_tokens).text,
        "steps": [],
        "whole": shape.whole,
    }
    return {
        ShownConversation(frozen.before): StoredAnswer.of(view),
        MemoriesById(ids): shown,
        TurnSoFar(frozen.turn_id): TurnRecord((prompt,)),
    }


async def measure_recall(path: Path) -> tuple[float, float, float]:
    """Return the p95 of a recall, of its CPU, and the loop's longest pause, ms."""
    store = await Store.open(path, clock_now=lambda: int(time.time() * 1e6))
    longest, is_done = 0.0, False

    async def watch() -> None:
        nonlocal longest
        while not is_done:
            begun = time.perf_counter()
            await asyncio.sleep(0.002)
            longest = max(longest, (time.perf_counter() - begun) * 1000 - 2)

    try:
        newest = (await store.read("SELECT max(id) FROM memory WHERE mysis_id = 1"))[0][0]
        watcher = asyncio.create_task(watch())
        times, cpu, words = [], list[float](), Words()

        def recall(connection: sqlite3.Connection, text: str) -> None:
            begun = time.thread_time()
            find_related(connection, mysis_id=1, text=text, before=newest, items=5, shown=())
            cpu.append((time.thread_time() - begun) * 1000)

        for number in range(100):
            text = f"{PROMPT} {words.text(6)} {RARE if number % 5 == 0 else ''}"
            begun = time.perf_counter()
            async with store.search_reader() as reader:
                await reader.run(partial(recall, text=text))
            times.append((time.perf_counter() - begun) * 1000)
        is_done = True
        await watcher
    finally:
        await store.close()
    return percentile(times, 0.95), percentile(cpu, 0.95), longest


def conversation(count: int) -> list[Memory]:
    words = Words()
    found = []
    for number in range(1, count + 1):
        role, source = (Role.USER, Source.DIRECT) if number % 2 else (Role.ASSISTANT, Source.LLM)
        found.append(Memory(number, 1, 1, 1, number, role, source, words.text(150)))
    return found


def shape_of(talk: list[Memory]) -> ConversationShape:
    rules = WindowRules()
    parts = Conversation(tuple(talk[: rules.primers]), tuple(talk[rules.primers :]))
    return shape_conversation(rules, parts, budget=25_000, overhead=0)


def estimate_new(talk: list[Memory]) -> int:
    window_estimate._measured.clear()
    return window_estimate.estimate_messages(talk)


async def measure_publishing() -> float:
    """Return the CPU of one publish to 20 subscribers with its commit, ms."""
    async with rig(PlainModel()) as found:
        ids = await found.create(20)
        limits = topic_ops.PublishLimits(10**6, 30)

        def publish(conn: WriterConnection) -> None:
            outgoing = topic_ops.OutgoingTopicMessage("NEWS", PROMPT, None, COMMANDER)
            topic_ops.publish(conn, outgoing, lambda topic: ids, limits)

        await found.store.write(publish)
        begun = time.process_time()
        for _ in range(200):
            await found.store.write(publish)
        return (time.process_time() - begun) / 200 * 1000


def judge(rows: Iterator[tuple[str, float, float]]) -> int:
    """Print each number beside its goal; return how many goals are missed."""
    missed = 0
    for what, found, most in rows:
        missed += found > most
        print(f"{what:<58} {found:>9.2f} ms   goal {most:g} ms{'' if found <= most else '   MISSED'}", flush=True)
    return missed


def measure(few: Path, many: Path, memories: int) -> Iterator[tuple[str, float, float]]:
    yield "plan of a request from its answers, p99", measure_planning(), 2.0
    small, large = measure_reading(few), measure_reading(many)
    yield f"answers and first plan, {FEW:,} memories, median", small, 10.0
    yield f"answers and first plan, {memories:,} memories, median", large, small * 2
    p95, cpu, held = asyncio.run(measure_recall(many))
    yield f"recall among {memories:,} memories, p95", p95, 100.0
    yield "its CPU, p95, which other work on the machine changes less", cpu, 100.0
    yield "longest time that the loop stood still meanwhile", held, 25.0
    talk = conversation(1_000)
    yield "estimate of 1,000 messages that were never measured", min(timed(lambda: estimate_new(talk), 20)), 5.0
    known = min(timed(lambda: estimate_messages(talk), 50))
    yield "estimate of 1,000 messages that were measured before", known, 1.0
    yield "shape of 1,000 messages, without their estimate", min(timed(lambda: shape_of(talk), 50)) - known, 1.0
    yield "publish to 20 subscribers, CPU with its commit", asyncio.run(measure_publishing()), 3.0


def report_paths() -> None:
    """Print the time from the history to the plan for each length of a conversation."""
    with tempfile.TemporaryDirectory(prefix="zoea-planner-") as place:
        for size in (50, 100, 500, 1_000):
            path = Path(place) / f"{size}.db"
            build(path, size, words_each=150)
            taken = asyncio.run(measure_path(path))
            print(
                f"from the history to the plan, {size:,} messages".ljust(59)
                + f"p50 {percentile(taken, 0.5):.2f} ms, p95 {percentile(taken, 0.95):.2f} ms",
                flush=True,
            )


def main() -> int:
    parser = argparse.ArgumentParser(description="What planning, recall, estimating, shaping and publishing take.")
    parser.add_argument("--memories", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help="with 50,000 memories")
    asked = parser.parse_args()
    memories = 50_000 if asked.quick else asked.memories
    report_paths()
    with tempfile.TemporaryDirectory(prefix="zoea-planner-") as place:
        few, many = Path(place) / "few.db", Path(place) / "many.db"
        build(few, FEW)
        build(many, memories)
        return 1 if judge(measure(few, many, memories)) else 0


if __name__ == "__main__":
    sys.exit(main())
