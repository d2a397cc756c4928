"""Searches and reads stored memories for tools, within a deadline."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from zoea.model.errors import StoreError
from zoea.store.database_file import convert_row
from zoea.store.readers import SearchPool
from zoea.store.search import (
    BroadcastHit,
    BroadcastHits,
    BroadcastQuery,
    Excerpt,
    MemoryHits,
    MemoryQuery,
    search_broadcasts,
    search_memories,
)

DEADLINE_S = 10.0
CALL_EXCERPT_CHARS = 500

_PART = """
SELECT id AS memory_id, mysis_id, mysis, role, source, created_at, length(whole) AS total,
  coalesce(substr(whole, :first, :most), '') AS text
FROM (SELECT m.id, m.mysis_id, y.name AS mysis, m.role, m.source, m.created_at, {whole} AS whole
  FROM memory m JOIN mysis y ON y.id = m.mysis_id
  WHERE m.id = :id AND (:owner IS NULL OR m.mysis_id = :owner))
"""
_WHOLE = {
    "content": "m.content",
    "reasoning": "m.reasoning",
    "call": "(SELECT k.name || '(' || k.arguments || ')' FROM tool_call k"
    " WHERE k.memory_id = m.id AND k.position = :position)",
}
_CALLS = f"""
SELECT position, name, substr(arguments, 1, {CALL_EXCERPT_CHARS}), length(arguments) FROM tool_call
WHERE memory_id = :id ORDER BY position
"""
_LAST_ANSWER = """
SELECT id, substr(content, 1, :most) FROM memory
WHERE mysis_id = :mysis AND role = 'assistant' AND content <> '' ORDER BY id DESC LIMIT 1
"""
_BROADCASTS = """
SELECT id AS message_id, sender_kind, sender_id, sender_name AS sender, created_at,
  substr(content, 1, :most) AS text, length(content) AS total
FROM message WHERE kind = 'broadcast' ORDER BY id DESC LIMIT :limit
"""

T = TypeVar("T")


class CallExcerpt(Struct, frozen=True):
    """A call of an answer: position, name, begin of its arguments, and their whole length."""

    position: int
    name: str
    arguments: str
    arguments_chars: int


class MemoryPart(Struct, frozen=True):
    """Some characters of one part of a memory.

    `total` is the length of the whole part, None where there is no such call; `calls` are
    listed with the beginning of the content only. `created_at` is µs UTC.
    """

    memory_id: int
    mysis_id: int
    mysis: str
    role: str
    source: str
    created_at: int
    text: str
    total: int | None
    calls: tuple[CallExcerpt, ...] = ()


class MemoryReader:
    """Reads stored memories on the connections of a pool.

    Every method raises StoreMissing where there is no database, and StoreError where it
    cannot be read or takes longer than the deadline.
    """

    def __init__(self, pool: SearchPool, *, deadline_s: float = DEADLINE_S) -> None:
        self._pool = pool
        self._deadline_s = deadline_s

    @property
    def database(self) -> Path:
        return self._pool.path

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` with a read-only connection with `sqlite3.Row` rows."""
        try:
            async with asyncio.timeout(self._deadline_s), self._pool.reader() as reader:
                return await reader.run(work)
        except TimeoutError:
            raise StoreError(
                f"that took longer than {self._deadline_s:g} s and was ended",
                hint="Narrow it: name a mysis, a time, or a longer text.",
                title="Too long",
            ) from None

    async def search_memories(self, query: MemoryQuery) -> MemoryHits:
        """Search memories; see `zoea.store.search`."""
        return await self.run(partial(search_memories, query=query))

    async def search_broadcasts(self, query: BroadcastQuery) -> BroadcastHits:
        """Search broadcasts; see `zoea.store.search`."""
        return await self.run(partial(search_broadcasts, query=query))

    async def read_part(
        self, memory_id: int, part: str, *, position: int, offset: int, max_chars: int, owner: int | None
    ) -> MemoryPart | None:
        """Read `max_chars` characters from `offset` on; None where there is no such memory.

        Args:
            part: content, reasoning, or call: `name(arguments)` of the call at `position`.
            owner: The only mysis to read memories of; None for all.
        """
        values = {"id": memory_id, "first": offset + 1, "most": max_chars, "position": position, "owner": owner}

        def read(connection: sqlite3.Connection) -> MemoryPart | None:
            row = connection.execute(_PART.format(whole=_WHOLE[part]), values).fetchone()
            if row is None:
                return None
            with_calls = part == "content" and not offset
            calls = connection.execute(_CALLS, values).fetchall() if with_calls else ()
            return convert_row(MemoryPart, row, calls=[CallExcerpt(*call) for call in calls])

        return await self.run(read)

    async def read_last_answer(self, mysis_id: int, max_chars: int) -> tuple[int, str] | None:
        """Read the newest answer of a mysis: memory id and the beginning of the text. None where there is none."""
        values = {"mysis": mysis_id, "most": max_chars}
        row = await self.run(lambda connection: connection.execute(_LAST_ANSWER, values).fetchone())
        return tuple(row) if row is not None else None

    async def read_broadcasts(self, limit: int, max_chars: int) -> tuple[BroadcastHit, ...]:
        """Read the newest broadcasts, newest first, each cut to `max_chars`."""

        def read(connection: sqlite3.Connection) -> tuple[BroadcastHit, ...]:
            rows = connection.execute(_BROADCASTS, {"limit": limit, "most": max_chars})
            return tuple(convert_row(BroadcastHit, row, excerpt=Excerpt(row["text"], 0, row["total"])) for row in rows)

        return await self.run(read)

    async def close(self) -> None:
        """Close the pool; running queries are interrupted."""
        await self._pool.close()
