"""Finds words in the conversation of one mysis; a search can be stopped.

Words in lower case match any case (A to Z); a capital letter makes the match exact.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from zoea.model.errors import StoreError
from zoea.store.database_file import open_reader
from zoea.store.search import MemoryQuery, SearchColumn, matching_ids
from zoea.text import clean

LIMIT = 1000

# The positions of the words `?1` in the memories `?2`, a JSON array. {fold} is lower() or empty.
_PLACES = """
SELECT m.id, m.seq, t.number,
  instr({fold}(m.content), {fold}(?1)) AS at, instr({fold}(m.reasoning), {fold}(?1)) AS thought,
  (SELECT k.id FROM tool_call k WHERE k.memory_id = m.id
    AND instr({fold}(k.name || '(' || k.arguments || ')'), {fold}(?1)) LIMIT 1) AS called,
  (SELECT r.id FROM tool_call r WHERE r.result_memory_id = m.id) AS answers
FROM memory m JOIN turn t ON t.id = m.turn_id WHERE m.id IN (SELECT value FROM json_each(?2))
"""


@dataclass(frozen=True, slots=True)
class FindHit:
    """A memory that contains the words.

    `at` is their position in the content, `thought` in the reasoning, in characters
    from 0, or -1; `call_id` is the call that has them in its name, arguments or result.
    """

    memory_id: int
    turn_number: int
    seq: int
    at: int
    thought: int
    call_id: int | None


@dataclass(frozen=True, slots=True)
class FindResult:
    """Hits in conversation order; `is_cut` if there are older ones over the limit."""

    words: str
    hits: tuple[FindHit, ...] = ()
    is_cut: bool = False


class ConversationFinder:
    """Runs one search at a time; `stop` ends it from another thread."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._running: sqlite3.Connection | None = None

    def find(self, mysis_id: int, words: str, *, limit: int = LIMIT) -> FindResult | None:
        """Find the newest `limit` memories with the words; None if stopped. Raises StoreError."""
        words = clean(words)
        if not words.strip():
            return FindResult(words)
        query = MemoryQuery(words, column=SearchColumn.ANY, fold=words == words.lower(), mysis_ids=(mysis_id,))
        places = _PLACES.format(fold="lower" if query.fold else "")
        with closing(open_reader(self._database)) as reader:
            with self._lock:
                self._running = reader
            try:
                ids = matching_ids(reader, query, limit + 1)
                found = reader.execute(places, (words, json.dumps(ids[:limit]))).fetchall()
            except sqlite3.OperationalError as problem:
                if getattr(problem, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                    return None
                raise StoreError(f"{self._database} cannot be searched: {problem}") from problem
            finally:
                with self._lock:
                    if self._running is reader:
                        self._running = None
        hits = [_hit(row) for row in found]
        hits.sort(key=lambda hit: (hit.turn_number, hit.seq))
        return FindResult(words, tuple(hits), len(ids) > limit)

    def stop(self) -> None:
        """Stop the running search; may be called from any thread."""
        with self._lock:
            if self._running is not None:
                self._running.interrupt()


def _hit(row: sqlite3.Row) -> FindHit:
    call = row["answers"] if row["at"] else None
    return FindHit(row["id"], row["number"], row["seq"], row["at"] - 1, row["thought"] - 1, call or row["called"])
