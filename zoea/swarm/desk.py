"""What a mysis may do and read through Zoea's own tools: `SwarmDesk` over the store and the commander.

The caller is always the mysis whose toolbox it is, never an argument of the call.
Until the indexes exist the search is a scan, newest first: exact, and case-sensitive.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from zoea.model.errors import UsageError
from zoea.model.values import MysisView, Receipt, Sender
from zoea.model.words import SenderKind
from zoea.store import Store
from zoea.swarm.view import LiveView
from zoea.text import clean

Say = Callable[[Sender, int, str | None, str], Awaitable[Receipt]]

_MESSAGES = """
SELECT m.id, m.role, m.source, m.content, m.reasoning, m.created_at FROM memory m
WHERE m.mysis_id = :mysis AND (instr(m.{column}, :query) > 0 {calls})
ORDER BY m.id DESC LIMIT :limit
"""
_CALLS = """ OR EXISTS (SELECT 1 FROM tool_call c WHERE c.memory_id = m.id
  AND instr(c.name || '(' || c.arguments || ')', :query) > 0)"""
_BROADCASTS = """
SELECT g.id, g.sender_name, g.content, g.created_at FROM message g
WHERE g.kind = 'broadcast' AND instr(g.content, :query) > 0
  AND (g.sender_id = :mysis OR EXISTS (SELECT 1 FROM delivery d WHERE d.message_id = g.id AND d.mysis_id = :mysis
                                          AND d.state IN ('pending', 'taken')))
ORDER BY g.id DESC LIMIT :limit
"""


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

    def _sender(self, mysis_id: int) -> Sender:
        return Sender(SenderKind.MYSIS, mysis_id, self._view.row(mysis_id).mysis.name)

    async def desk_list(self, mysis_id: int) -> tuple[MysisView, ...]:
        return tuple(row.freeze() for row in self._view.rows())

    async def desk_read(self, mysis_id: int, memory_id: int, offset: int, max_chars: int) -> dict[str, Any]:
        found = await self._store.read("SELECT * FROM memory WHERE id = ? AND mysis_id = ?", (memory_id, mysis_id))
        if not found:
            raise UsageError(f"you have no memory {memory_id}", hint="use an id that a search or a cut result gave you")
        row = found[0]
        content = row["content"][offset : offset + max_chars]
        rest = len(row["content"]) - offset - len(content)
        return {
            "id": row["id"],
            "role": row["role"],
            "source": row["source"],
            "created_at": _iso(row["created_at"]),
            "offset": offset,
            "total_chars": len(row["content"]),
            "content": content,
            "next_offset": offset + len(content) if rest > 0 else None,
        }

    async def desk_search(self, mysis_id: int, column: str, query: str, limit: int) -> Sequence[dict[str, Any]]:
        parameters = {"mysis": mysis_id, "query": clean(query), "limit": limit}
        if column == "broadcasts":
            sql = _BROADCASTS
        else:
            sql = _MESSAGES.format(column=column, calls=_CALLS if column == "content" else "")
        async with self._store.search_reader() as reader:
            found = await reader.read(sql, parameters)
        return [{key: _iso(row[key]) if key == "created_at" else row[key] for key in row.keys()} for row in found]  # noqa: SIM118  a Row iterates over its values


def _iso(at: int) -> str:
    return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat()
