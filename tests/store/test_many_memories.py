"""Search in many thousand memories equals a scan, with a small index."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.search import ABSENT, COMMON, GOALS, RARE, TALKER, Words, build, sizes
from zoea.store.search import MemoryQuery, SearchColumn, search_memories

pytestmark = pytest.mark.timeout(300)  # at full strength ten seconds of CPU, on a shared machine

MEMORIES = 100_000 if os.environ.get("ZOEA_SOAK") else 7_000
"""Enough that terms are chosen where the case of letters counts nothing."""
_TEXTS = {
    SearchColumn.CONTENT: "{fold}(m.content)",
    SearchColumn.REASONING: "{fold}(m.reasoning)",
    SearchColumn.ANY: "{fold}(m.content || char(10) || m.reasoning)",
}
"""No word that is asked for has a newline."""
_CALL = """m.role = 'assistant' AND EXISTS (SELECT 1 FROM tool_call k
  WHERE k.memory_id = m.id AND instr({fold}(k.name || '(' || k.arguments || ')'), :words) > 0)"""


@pytest.fixture
def many(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = tmp_path / "zoea.db"
    build(path, Words(), MEMORIES, group=2_000)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection
    path.unlink()  # up to a hundred megabytes


def scan(connection: sqlite3.Connection, query: MemoryQuery) -> list[int]:
    """Return the result of a plain scan, newest first."""
    fold = "lower" if query.fold else ""
    truth = f"instr({_TEXTS[query.column]}, :words) > 0"
    if query.column is not SearchColumn.REASONING:
        truth = f"{truth} OR {_CALL}"
    whose = "" if query.mysis_ids is None else f"m.mysis_id = {query.mysis_ids[0]} AND"
    sql = f"SELECT m.id FROM memory m WHERE {whose} ({truth}) ORDER BY m.id DESC LIMIT :most".replace("{fold}", fold)
    return [row[0] for row in connection.execute(sql, {"words": query.text, "most": query.limit})]


def test_every_search_equals_a_scan_and_the_index_is_smaller_than_the_text(many: sqlite3.Connection) -> None:
    words, pick = Words().all, random.Random(11)
    assert many.execute("SELECT count(*) FROM memory").fetchone() == (MEMORIES,)
    (said,) = many.execute("SELECT content FROM memory WHERE id = 5432").fetchone()
    texts = [
        RARE,
        ABSENT,
        words[0],
        f" {words[COMMON]} ",
        words[900],
        words[-1],
        said[10:34],
        " ".join(pick.sample(words[:COMMON], 3)) + "?",
        '"target": ',
    ]
    for text in texts:
        for query in (
            MemoryQuery(text),
            MemoryQuery(text, mysis_ids=(TALKER,)),
            MemoryQuery(text, column=SearchColumn.REASONING),
            MemoryQuery(text, column=SearchColumn.ANY, fold=True, limit=50),
        ):
            assert [hit.memory_id for hit in search_memories(many, query).hits] == scan(many, query), query
    assert len(search_memories(many, MemoryQuery(RARE)).hits) == 12
    assert sizes(many) <= GOALS["index_share"]
