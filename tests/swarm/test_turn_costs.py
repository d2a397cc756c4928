"""A turn costs the same however much its mysis remembers: no statement on its way visits more rows."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.swarm.harness import call, script, swarm
from zoea.model.request import Answer
from zoea.settings.schema import Settings

SHORT, LONG = 400, 100_000 if os.environ.get("ZOEA_SOAK") else 10_000
"""Memories of the mysis before the turn; the short life has more than a window too."""
SPREAD = 1.5
ALLOWED = 2_000
"""Instructions of SQLite that a statement may add: deeper trees of a larger table, and some summaries of ranges."""
UNCOMMITTED, STEPS_A_MEMORY = 4_000, 100
"""Memories that no commit holds, and what a statement may take for each of them in the first turn."""

_LENGTHEN = (
    """WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < :turns)
    INSERT INTO turn(mysis_id, number, opened_by, frozen, outcome, opened_at, ended_at)
    SELECT 1, n.n + 100, 'prompt', '{}', 'answered', n.n, n.n FROM n""",
    """INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, tokens, created_at)
    SELECT 1, t.id, s.column1, s.column2, s.column3, s.column4 || t.number, 9, t.number FROM turn t,
    (VALUES (1, 'user', 'direct', 'go to belt '), (2, 'assistant', 'llm', ''), (3, 'tool', 'tool', 'iron '),
            (4, 'assistant', 'llm', 'went to belt ')) s WHERE t.number > 100 ORDER BY t.id, s.column1""",
    """INSERT INTO tool_call(memory_id, position, name, arguments, fingerprint, result_fingerprint, state,
                            result_memory_id)
    SELECT a.id, 0, 'look', '{}', randomblob(16), randomblob(16), 'done', r.id FROM memory a
    JOIN memory r ON r.turn_id = a.turn_id AND r.seq = 3 JOIN turn t ON t.id = a.turn_id
    WHERE a.seq = 2 AND t.number > 100""",
    "UPDATE tally SET turns = :turns",
    "DELETE FROM unindexed",
)
_VALUE = re.compile(r"'(?:[^']|'')*'|\b\d+(?:\.\d+)?\b|x'[^']*'")
_LIST = re.compile(r"\?(?:, ?\?)+")
_LATE_RESULT = """
INSERT INTO late_result(tool_call_id, content, is_error, arrived_at)
SELECT max(id), 'iron, after all', 0, 1 FROM tool_call
"""


class StatementCounts:
    """Counts SQLite's instructions by statement, over every connection of the process."""

    def __init__(self) -> None:
        self.steps: dict[str, int] = defaultdict(int)
        self.is_on = False

    def watch(self, connect: Callable[..., sqlite3.Connection]) -> Callable[..., sqlite3.Connection]:
        def watched(*args: Any, **kwargs: Any) -> sqlite3.Connection:
            connection = connect(*args, **kwargs)
            current = ""

            def trace(sql: str) -> None:
                nonlocal current
                if not sql.startswith("--"):  # a trigger belongs to its statement
                    current = _LIST.sub("?", _VALUE.sub("?", " ".join(sql.split())))

            def count() -> int:
                if self.is_on:
                    self.steps[current] += 1
                return 0

            connection.set_trace_callback(trace)
            connection.set_progress_handler(count, 1)
            return connection

        return watched


async def live(folder: Path, memories: int, counts: StatementCounts | None = None) -> Path:
    """Let a mysis have `memories` memories and commit them in its next turn. Return its folder.

    Args:
        counts: Counts what that turn and the start before it take.
    """
    async with swarm(folder, script(Answer(text="ready"))) as s:
        await s.ask("alpha", "begin")
    with closing(sqlite3.connect(folder / "zoea.db")) as db:
        for statement in _LENGTHEN:
            db.execute(statement, {"turns": memories // 4})
        db.commit()
    with pytest.MonkeyPatch.context() as patch:
        if counts is not None:
            counts.is_on = True
            patch.setattr(sqlite3, "connect", counts.watch(sqlite3.connect))
        async with swarm(folder, script(Answer(text="ready"))) as s:
            await s.commander.start("alpha")
            await s.ask("alpha", "commit what no commit holds")
            assert await s.value("SELECT sum(message_count) FROM ctx_commit") == memories + 4
    return folder


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The folders of a short and of a long life."""
    return {memories: asyncio.run(live(tmp_path_factory.mktemp("life"), memories)) for memories in (SHORT, LONG)}


async def count_turn(life: Path, folder: Path, strategy: str) -> dict[str, int]:
    """Play a turn with two calls and a late result; return steps by statement."""
    shutil.copytree(life, folder)
    counts = StatementCounts()
    settings = Settings.model_validate({"context": {"strategy": strategy, "keep_turns": 5, "recall_items": 3}})
    replies = (Answer(text="ready"), Answer(calls=(call("look"), call("act"))), Answer(text="done"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", counts.watch(sqlite3.connect))
        async with swarm(folder, script(*replies), settings=settings) as s:
            await s.commander.start("alpha")
            await s.ask("alpha", "summarise what came before")
            await s.store.write(lambda conn: conn.execute(_LATE_RESULT))
            counts.is_on = True
            await s.ask("alpha", "go to the iron belt")
            counts.is_on = False
            assert await s.value("SELECT told_in_turn FROM late_result"), "the turn is told of the late result"
            assert s.sent()[-1][-1] == ("tool", "act did x")
    return counts.steps


@pytest.mark.parametrize("strategy", ["turns", "window"])
async def test_no_statement_of_a_turn_visits_more_rows_of_a_longer_life(
    strategy: str, lives: dict[int, Path], tmp_path: Path
) -> None:
    short = await count_turn(lives[SHORT], tmp_path / "short", strategy)
    long = await count_turn(lives[LONG], tmp_path / "long", strategy)
    assert len(long) > 20
    grown = {
        statement: (short.get(statement, 0), steps)
        for statement, steps in long.items()
        if steps > short.get(statement, 0) * SPREAD + ALLOWED
    }
    assert not grown


async def test_the_first_turn_costs_in_proportion_to_what_no_commit_holds(tmp_path: Path) -> None:
    counts = StatementCounts()
    await live(tmp_path, UNCOMMITTED, counts)
    assert not {one: steps for one, steps in counts.steps.items() if steps > UNCOMMITTED * STEPS_A_MEMORY}
