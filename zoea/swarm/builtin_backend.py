"""What a mysis may do and read through Zoea's own tools: `SwarmDesk` over the store and the commander.

The caller is always the mysis whose toolbox it is, never an argument of the call.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from zoea.model.enums import Role, SenderKind
from zoea.model.errors import UsageError
from zoea.model.values import DeskFound, DeskSearch, MysisView, Receipt, Sender
from zoea.store import Store
from zoea.store.search import (
    BroadcastHit,
    BroadcastQuery,
    Excerpt,
    HitPlace,
    MatchMode,
    MemoryHit,
    MemoryQuery,
    SearchColumn,
    fit_hit,
    search_broadcasts,
    search_memories,
)
from zoea.swarm.live_view import LiveView
from zoea.tools.builtin.answer_size import call_rows, size
from zoea.tools.builtin.schemas import ROOM

Say = Callable[[Sender, int, str | None, str], Awaitable[Receipt]]

_CALLS = (
    "SELECT position, name, arguments, length(arguments) AS total FROM tool_call WHERE memory_id = ? ORDER BY position"
)
_CALL = "SELECT name || '(' || arguments || ')' AS call FROM tool_call WHERE memory_id = ? AND position = ?"
_ANSWERED = (
    "SELECT sentence FROM approval WHERE tool_call_id = ? AND mysis_id = ? AND answer = 'once' ORDER BY id DESC LIMIT 1"
)

SEARCH_S = 10.0
"""How long a search of a mysis may take."""


class Desk:
    """See `zoea.model.ports.SwarmDesk`."""

    def __init__(self, store: Store, view: LiveView, say: Say) -> None:
        self._store = store
        self._view = view
        self._say = say

    async def desk_send(self, mysis_id: int, hop: int, to: str, text: str) -> Receipt:
        return await self._say(self._sender(mysis_id), hop + 1, to, text)

    async def desk_broadcast(self, mysis_id: int, hop: int, text: str) -> Receipt:
        return await self._say(self._sender(mysis_id), hop + 1, None, text)

    async def desk_answer(self, mysis_id: int, call_id: int) -> str:
        found = await self._store.read(_ANSWERED, (call_id, mysis_id))
        return str(found[0]["sentence"]) if found else ""

    def _sender(self, mysis_id: int) -> Sender:
        return Sender(SenderKind.MYSIS, mysis_id, self._view.row(mysis_id).mysis.name)

    async def desk_list(self, mysis_id: int) -> tuple[MysisView, ...]:
        return tuple(row.freeze() for row in self._view.rows())

    async def desk_read(
        self,
        mysis_id: int,
        memory_id: int,
        offset: int,
        max_chars: int,
        *,
        part: str = "content",
        position: int = 0,
        everyone: bool = False,
    ) -> dict[str, Any]:
        found = await self._store.read(
            "SELECT * FROM memory WHERE id = ? AND (mysis_id = ? OR ?)", (memory_id, mysis_id, everyone)
        )
        if not found:
            whose = "there is" if everyone else "you have"
            raise UsageError(f"{whose} no memory {memory_id}", hint="use an id that a search or a cut result gave you")
        row = found[0]
        whole = await self._call(memory_id, position) if part == "call" else row[part]
        text = whole[offset : offset + max_chars]
        rest = len(whole) - offset - len(text)
        answer = {
            "id": row["id"],
            "role": row["role"],
            "source": row["source"],
            "created_at": _iso(row["created_at"]),
            "offset": offset,
            "total_chars": len(whole),
            part: text,
            "next_offset": offset + len(text) if rest > 0 else None,
        }
        if part == "call":
            answer["position"] = position
        elif part == "content" and not offset and row["role"] == Role.ASSISTANT:
            calls = await self._store.read(_CALLS, (memory_id,))
            listed = call_rows([tuple(call) for call in calls])
            if listed:
                answer["calls"] = listed
            if len(listed) < len(calls):
                answer["more_calls"] = len(calls) - len(listed)
        return answer

    async def _call(self, memory_id: int, position: int) -> str:
        found = await self._store.read(_CALL, (memory_id, position))
        if not found:
            raise UsageError(f"position: memory {memory_id} has no call {position}")
        return str(found[0]["call"])

    async def desk_search(self, mysis_id: int, search: DeskSearch) -> DeskFound:
        ask = _broadcasts if search.column == "broadcasts" else _memories
        try:
            async with asyncio.timeout(SEARCH_S), self._store.search_reader() as reader:
                return await reader.run(partial(ask, search=search))
        except TimeoutError:
            raise UsageError(
                "the search took too long and was ended", hint="ask for more exact words, or narrow it with since"
            ) from None


def _memories(connection: sqlite3.Connection, search: DeskSearch) -> DeskFound:
    query = MemoryQuery(
        text=search.query,
        column=SearchColumn(search.column),
        match=MatchMode.RANKED if search.ranked else MatchMode.EXACT,
        mysis_ids=None if search.whose is None else (search.whose,),
        since=search.since,
        until=search.until,
        role=search.role,
        source=search.source,
        before_id=search.before_id,
        limit=search.limit,
        max_chars=search.max_chars,
    )
    page = search_memories(connection, query)
    hits = (fit_hit(hit, lambda one: _fits(_memory_row(one, search))) for hit in page.hits)
    return DeskFound(tuple(_memory_row(hit, search) for hit in hits), page.before_id, page.note)


def _memory_row(hit: MemoryHit, search: DeskSearch) -> dict[str, Any]:
    row: dict[str, Any] = {"id": hit.memory_id}
    if search.whose is None:
        row["mysis"] = hit.mysis
    row |= {"role": hit.role.value, "source": hit.source.value, "content": hit.content.text}
    if hit.spot is not HitPlace.CONTENT:
        row[hit.spot.value] = hit.excerpt.text
    if hit.position is not None:
        row["position"] = hit.position
    return {**row, **_cut(hit.excerpt), "created_at": _iso(hit.created_at)}


def _broadcasts(connection: sqlite3.Connection, search: DeskSearch) -> DeskFound:
    query = BroadcastQuery(
        text=search.query,
        match=MatchMode.RANKED if search.ranked else MatchMode.EXACT,
        mysis_id=search.whose,
        since=search.since,
        until=search.until,
        before_id=search.before_id,
        limit=search.limit,
        max_chars=search.max_chars,
    )
    page = search_broadcasts(connection, query)
    hits = (fit_hit(hit, lambda one: _fits(_broadcast_row(one))) for hit in page.hits)
    return DeskFound(tuple(map(_broadcast_row, hits)), page.before_id, page.note)


def _broadcast_row(hit: BroadcastHit) -> dict[str, Any]:
    return {
        "id": hit.message_id,
        "sender": hit.sender or "commander",
        "content": hit.excerpt.text,
        **_cut(hit.excerpt),
        "created_at": _iso(hit.created_at),
    }


def _fits(row: dict[str, Any]) -> bool:
    return size(row) + 2 <= ROOM


def _cut(excerpt: Excerpt) -> dict[str, int]:
    """Where a part of a long text stands in the whole; nothing for a whole one."""
    return {"from_char": excerpt.start, "total_chars": excerpt.total} if excerpt.is_cut else {}


def _iso(at: int) -> str:
    return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat()
