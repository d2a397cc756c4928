"""Measure opening, paging and searching a conversation of 100,000 memories.

`python benchmarks/transcript.py [memories]` builds the database in a temporary
folder and prints milliseconds. The exit code is 1 where opening takes longer than the goal.
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from zoea.queries import conversation
from zoea.queries.search_reader import ConversationFinder
from zoea.store.store import Store
from zoea.transfer.export import Format, export_to_file
from zoea.tui.conversation.block_painter import PaintOptions, paint_block
from zoea.tui.conversation.conversation_reader import ConversationSource, read_newest, read_older
from zoea.tui.theme import themes
from zoea.tui.theme.role_styles import ConversationPalette

PER_TURN = 12
START = 1_700_000_000_000_000
TEXT = "The belt holds **iron**; I go on to the next station and sell there, as you asked. " * 6
GOAL_MS = 300.0
RESULT = '{"fuel": 78, "hull": 100, "hold": {"used": 32, "of": 80}, "market": [{"id": "iron", "buy": 5.1}]}'


async def build(path: Path, memories: int) -> int:
    """Write a database with one mysis and about this many memories."""
    store = await Store.open(path, clock_now=lambda: START)
    await store.close()
    turns = memories // PER_TURN
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("INSERT INTO template VALUES (zeroblob(32), 'default', '', ?)", (START,))
        conn.execute(
            "INSERT INTO mysis(id, uid, name, template_hash, provider, model, state, state_at, created_at)"
            " VALUES (1, 'u', 'alpha', zeroblob(32), 'p', 'm', 'idle', ?, ?)",
            (START, START),
        )
        memory_id = call_id = request_id = 0
        for number in range(1, turns + 1):
            at = START + number * 60_000_000
            conn.execute(
                "INSERT INTO turn(id, mysis_id, number, opened_by, frozen, outcome, opened_at, ended_at)"
                " VALUES (?,1,?,'prompt','{}','answered',?,?)",
                (number, number, at, at + 14_000_000),
            )
            for seq in range(1, PER_TURN + 1):
                memory_id += 1
                role = "user" if seq == 1 else "assistant" if seq % 2 == 0 else "tool"
                if role == "assistant":
                    request_id += 1
                    conn.execute(
                        "INSERT INTO request(id, mysis_id, turn_id, purpose, iteration, provider, model, state,"
                        " reserved_tokens, input_tokens, output_tokens, duration_us, created_at)"
                        " VALUES (?,1,?,'turn',?,'p','m','settled',0,1000,100,1400000,?)",
                        (request_id, number, seq // 2, at),
                    )
                text = {"user": "Mine iron and report.", "assistant": TEXT, "tool": RESULT}[role]
                conn.execute(
                    "INSERT INTO memory(id, mysis_id, turn_id, seq, role, source, content, reasoning, tokens,"
                    " request_id, created_at) VALUES (?,1,?,?,?,?,?,?,50,?,?)",
                    (
                        memory_id,
                        number,
                        seq,
                        role,
                        {"user": "direct", "assistant": "llm", "tool": "tool"}[role],
                        text,
                        "Where is iron? I look." if role == "assistant" else "",
                        request_id if role == "assistant" else None,
                        at + seq,
                    ),
                )
                if role == "tool":
                    call_id += 1
                    conn.execute(
                        "INSERT INTO tool_call(id, memory_id, position, name, arguments, fingerprint, state,"
                        " result_memory_id, started_at, ended_at)"
                        " VALUES (?,?,0,'get_ship','{\"id\": 7}',x'00','done',?,?,?)",
                        (call_id, memory_id - 1, memory_id, at, at + 400_000),
                    )
    return turns


def timed(name: str, work: Callable[[], Any], times: int = 5) -> tuple[Any, float]:
    """Run and print best and worst time; return the result and the median in ms."""
    took: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        result = work()
        took.append((time.perf_counter() - began) * 1000)
    sys.stdout.write(f"{name:<44}{min(took):9.1f} ms best{max(took):9.1f} ms worst\n")
    return result, statistics.median(took)


def main() -> int:
    memories = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "zoea.db"
        turns = asyncio.run(build(path, memories))
        sys.stdout.write(f"{memories:,} memories in {turns:,} turns, {path.stat().st_size / 1e6:.0f} MB\n")
        source = ConversationSource(path, 1, START)
        found, _ = themes.load_themes(Path(folder))
        options = PaintOptions(110, ConversationPalette(found[themes.DEFAULT]))
        timed("read the newest page", lambda: conversation.read_newest(path, 1))
        window, _ = timed("read it and make blocks", lambda: read_newest(source))
        timed("paint it", lambda: [paint_block(block, options, is_open=block.is_open) for block in window.blocks])
        _, opening = timed("open: read, make blocks, paint", lambda: _open(source, options))
        timed("read the page before", lambda: read_older(source, window))
        timed("read around the middle", lambda: conversation.read_around(path, 1, turns // 2))
        timed("find words that are everywhere", lambda: ConversationFinder(path).find(1, "iron"), 3)
        timed("find words that are nowhere", lambda: ConversationFinder(path).find(1, "unobtainium"), 3)
        timed(
            "export as JSON lines",
            lambda: export_to_file(path, 1, Path(folder) / "x.jsonl", Format.JSONL, replace=True),
            1,
        )
    missed = opening > GOAL_MS
    sys.stdout.write(f"{'missed' if missed else 'met':7} opening {opening:.1f} ms (the goal: at most {GOAL_MS:g})\n")
    return 1 if missed else 0


def _open(source: ConversationSource, options: PaintOptions) -> None:
    for block in read_newest(source).blocks:
        paint_block(block, options, is_open=block.is_open)


if __name__ == "__main__":
    sys.exit(main())
