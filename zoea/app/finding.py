"""Finding words in one mysis's conversation: every memory looked through, the reader can change their mind.

Small letters find any case (A to Z); a capital asks for exactly what was typed.
Source: spec tui.md, "Focus".
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from zoea.model.errors import StoreError
from zoea.store.direct import open_reader
from zoea.text import clean

LIMIT = 1000

# `?1` the mysis, `?2` the words, `?3` one more than the limit. {fold} is lower() or nothing.
_FIND = """
SELECT m.id, m.seq, t.number,
  instr({fold}(m.content), {fold}(?2)) AS at, instr({fold}(m.reasoning), {fold}(?2)) AS thought,
  (SELECT k.id FROM tool_call k WHERE k.memory_id = m.id
    AND (instr({fold}(k.name), {fold}(?2)) OR instr({fold}(k.arguments), {fold}(?2))) LIMIT 1) AS called,
  (SELECT r.id FROM tool_call r WHERE r.result_memory_id = m.id) AS answers
FROM memory m JOIN turn t ON t.id = m.turn_id
WHERE m.mysis_id = ?1 AND (at OR thought OR (m.role = 'assistant' AND called IS NOT NULL)) ORDER BY m.id DESC LIMIT ?3
"""


@dataclass(frozen=True, slots=True)
class Hit:
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
class Found:
    """Hits in conversation order; `is_cut` where there are older ones beyond the limit."""

    words: str
    hits: tuple[Hit, ...] = ()
    is_cut: bool = False


class Finder:
    """One search at a time: a new one, or `stop`, ends the one before."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._running: sqlite3.Connection | None = None

    def find(self, mysis_id: int, words: str, *, limit: int = LIMIT) -> Found | None:
        """What holds the words, the newest `limit` of it; None where it was stopped. Raises StoreError."""
        words = clean(words)
        if not words.strip():
            return Found(words)
        fold = "lower" if words == words.lower() else ""
        with closing(open_reader(self._database)) as reader:
            with self._lock:
                self._running = reader
            try:
                found = reader.execute(_FIND.format(fold=fold), (mysis_id, words, limit + 1)).fetchall()
            except sqlite3.OperationalError as problem:
                if getattr(problem, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                    return None
                raise StoreError(f"{self._database} cannot be searched: {problem}") from problem
            finally:
                with self._lock:
                    if self._running is reader:
                        self._running = None
        hits = [_hit(row) for row in found[:limit]]
        hits.sort(key=lambda hit: (hit.turn_number, hit.seq))
        return Found(words, tuple(hits), len(found) > limit)

    def stop(self) -> None:
        """End the search that runs now, from any thread."""
        with self._lock:
            if self._running is not None:
                self._running.interrupt()


def _hit(row: sqlite3.Row) -> Hit:
    call = row["answers"] if row["at"] else None
    return Hit(row["id"], row["number"], row["seq"], row["at"] - 1, row["thought"] - 1, call or row["called"])
