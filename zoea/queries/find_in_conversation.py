"""Finding words in one mysis's conversation, all the places at once; the reader can change their mind.

Small letters find any case (A to Z); a capital asks for exactly what was typed.
Source: spec tui.md, "Focus".
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

# Where the words `?1` stand in the memories `?2`, a JSON array. {fold} is lower() or nothing.
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
    """A memory that holds the words.

    `at` is the place in its content, `thought` in its reasoning, both in
    characters from 0, -1 where they are not there; `call_id` is the call whose
    name, arguments or result hold them.
    """

    memory_id: int
    turn_number: int
    seq: int
    at: int
    thought: int
    call_id: int | None


@dataclass(frozen=True, slots=True)
class FindResult:
    """Hits in conversation order; `is_cut` where there are older ones beyond the limit."""

    words: str
    hits: tuple[FindHit, ...] = ()
    is_cut: bool = False


class ConversationFinder:
    """One search at a time: a new one, or `stop`, ends the one before."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._running: sqlite3.Connection | None = None

    def find(self, mysis_id: int, words: str, *, limit: int = LIMIT) -> FindResult | None:
        """What holds the words, the newest `limit` of it; None where it was stopped. Raises StoreError."""
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
        """End the search that runs now, from any thread."""
        with self._lock:
            if self._running is not None:
                self._running.interrupt()


def _hit(row: sqlite3.Row) -> FindHit:
    call = row["answers"] if row["at"] else None
    return FindHit(row["id"], row["number"], row["seq"], row["at"] - 1, row["thought"] - 1, call or row["called"])
