"""The searches of the MCP server: from arguments to a query, from its page to an answer that is not too long."""

from __future__ import annotations

from functools import partial
from typing import Any

from zoea.mcp_server.client_rows import iso
from zoea.mcp_server.memory_readers import MemoryReaders
from zoea.mcp_server.tokens import McpClient
from zoea.model.enums import Role, SenderKind, Source
from zoea.model.errors import UsageError
from zoea.store.search import (
    BroadcastHit,
    BroadcastQuery,
    HitPlace,
    MatchMode,
    MemoryHit,
    MemoryQuery,
    SearchColumn,
    fit_hit,
    search_broadcasts,
    search_memories,
)
from zoea.tools.builtin import schemas
from zoea.tools.builtin.answer_size import called, size, within
from zoea.tools.builtin.tool_arguments import Fields

NO_HIT = {
    MatchMode.EXACT: "Nothing contains exactly this text. The search is case-sensitive: try a shorter or different "
    "part, or match ranked.",
    MatchMode.RANKED: "Nothing holds these words. Try fewer or other words.",
}


class Searching:
    """Carries out the search tools."""

    def __init__(self, readers: MemoryReaders) -> None:
        self._readers = readers

    async def messages(self, fields: Fields, client: McpClient) -> dict[str, Any]:
        return await self._memories(fields, SearchColumn.CONTENT)

    async def reasoning(self, fields: Fields, client: McpClient) -> dict[str, Any]:
        return await self._memories(fields, SearchColumn.REASONING)

    async def broadcasts(self, fields: Fields, client: McpClient) -> dict[str, Any]:
        query = BroadcastQuery(**_asked(fields))
        fields.no_more()
        page = await self._readers.ask(partial(search_broadcasts, query=query))
        rows = [_said(fit_hit(hit, lambda one: _fits(_said(one)))) for hit in page.hits]
        return _answer(rows, query.match, page.before_id, page.note)

    async def _memories(self, fields: Fields, column: SearchColumn) -> dict[str, Any]:
        asked = _asked(fields)
        mysis = fields.whole("mysis_id", 1, None)
        role, source = fields.choice("role", schemas.ROLES), fields.choice("source", schemas.SOURCES)
        fields.no_more()
        query = MemoryQuery(
            **asked,
            column=column,
            mysis_ids=None if mysis is None else (mysis,),
            role=Role(role) if role else None,
            source=Source(source) if source else None,
        )
        page = await self._readers.ask(partial(search_memories, query=query))
        rows = [_found(fit_hit(hit, lambda one: _fits(_found(one)))) for hit in page.hits]
        return _answer(rows, query.match, page.before_id, page.note)


def _asked(fields: Fields) -> dict[str, Any]:
    """What every search may be asked."""
    text = fields.raw_text("query")
    if not text:
        raise UsageError("query cannot be empty")
    if len(text) > schemas.MAX_QUERY:
        raise UsageError(f"query must have at most {schemas.MAX_QUERY} characters, not {len(text)}")
    return {
        "text": text,
        "match": MatchMode(fields.choice("match", schemas.MATCHES, MatchMode.EXACT.value)),
        "since": fields.moment("since"),
        "until": fields.moment("until"),
        "before_id": fields.whole("before_id", 1, None),
        "limit": fields.whole("limit", *schemas.LIMIT_RANGE) or schemas.LIMIT,
        "max_chars": fields.whole("max_chars", *schemas.CUT_RANGE) or schemas.CUT,
    }


def _found(hit: MemoryHit) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": hit.memory_id,
        "mysis_id": hit.mysis_id,
        "mysis": hit.mysis,
        "role": hit.role.value,
        "source": hit.source.value,
        "created_at": iso(hit.created_at),
        "content": hit.content.text,
        "is_cut": hit.content.is_cut or hit.excerpt.is_cut,
    }
    if hit.spot is not HitPlace.CONTENT:
        row[hit.spot.value] = hit.excerpt.text
    if hit.position is not None:
        row["position"] = hit.position
    if hit.excerpt.is_cut:
        row["from_char"] = hit.excerpt.start
    if hit.tool:
        row["tool"] = called(hit.tool)
    if hit.sender_kind is not None:
        row["sender"] = schemas.COMMANDER if hit.sender_kind is SenderKind.COMMANDER else hit.sender
    return row


def _said(hit: BroadcastHit) -> dict[str, Any]:
    return {
        "id": hit.message_id,
        "sender": schemas.COMMANDER if hit.sender_kind is SenderKind.COMMANDER else hit.sender,
        "created_at": iso(hit.created_at),
        "content": hit.excerpt.text,
        "is_cut": hit.excerpt.is_cut,
    }


def _fits(row: dict[str, Any]) -> bool:
    return size(row) + 2 <= schemas.ROOM


def _answer(rows: list[dict[str, Any]], match: MatchMode, before: int | None, note: str) -> dict[str, Any]:
    """The page as an object; what does not fit is counted, and found again by `next_before_id`."""
    kept = within(rows, schemas.ROOM)
    answer: dict[str, Any] = {"results": kept}
    hints = [note] if note else []
    left = len(rows) - len(kept)
    if left and match is MatchMode.RANKED:
        hints.append(f"{left} more did not fit: give a smaller max_chars")
    elif left:
        before = kept[-1]["id"]
        hints.append(f"{left} more of these did not fit: use before_id {before}")
    elif before is not None and not rows:
        hints.append(f"To look further, use before_id {before}")
    elif not rows:
        hints.append(NO_HIT[match])
    if before is not None:
        answer["next_before_id"] = before
    if hints:
        answer["hint"] = ". ".join(hints)
    return answer
