"""Search and read memories, for a mysis and for a client of the MCP server.

The two differ in the memories they may read (`owner`) and in the form of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from zoea.model.enums import Role, SenderKind, Source
from zoea.model.errors import UsageError
from zoea.store.memory_reader import MemoryPart
from zoea.store.search import (
    BroadcastHit,
    BroadcastHits,
    BroadcastQuery,
    Excerpt,
    HitPlace,
    MatchMode,
    MemoryHit,
    MemoryHits,
    MemoryQuery,
    SearchColumn,
    fit_hit,
)
from zoea.tools.builtin.answer_size import ROOM, call_rows, shorten_name, size, start_of, within
from zoea.tools.builtin.arguments import COMMANDER, MemorySearchArguments, ReadArguments, SearchArguments

_NO_TEXT = (
    "Nothing contains exactly this text. The search is case-sensitive: try a shorter or different part, or match "
    "ranked, which finds the words in any case."
)
_NO_WORDS = "Nothing earlier holds these words: try others once, or go on without."

Found = TypeVar("Found", MemoryHit, BroadcastHit)
Row = dict[str, Any]


class MemorySource(Protocol):
    """Stored memories, as `zoea.store.memory_reader.MemoryReader` reads them."""

    async def search_memories(self, query: MemoryQuery) -> MemoryHits: ...

    async def search_broadcasts(self, query: BroadcastQuery) -> BroadcastHits: ...

    async def read_part(
        self, memory_id: int, part: str, *, position: int, offset: int, max_chars: int, owner: int | None
    ) -> MemoryPart | None: ...


class RowFormat(Protocol):
    """The form in which a caller gets memories."""

    def memory_row(self, hit: MemoryHit) -> Row: ...

    def broadcast_row(self, hit: BroadcastHit) -> Row: ...

    def part_row(self, memory: MemoryPart, arguments: ReadArguments) -> Row:
        """Make the answer to a read, without its text."""
        ...

    def text_key(self, arguments: ReadArguments) -> str:
        """Name the field of that answer that holds the text."""
        ...


class MemoryTools:
    """Carries out searches and reads for one caller. `owner` is the only mysis to read memories of; None for all."""

    def __init__(self, source: MemorySource, rows: RowFormat, owner: int | None = None) -> None:
        self._source = source
        self._rows = rows
        self._owner = owner

    async def search(
        self, column: SearchColumn, arguments: MemorySearchArguments, *, asking_call: int | None = None
    ) -> Row:
        """Search memories; see `MemoryQuery` for what is not found with `asking_call`.

        Raises UsageError for another's memories where they may not be read.
        """
        owner = arguments.mysis_id
        if self._owner is not None:
            if owner not in (None, self._owner):
                raise UsageError(f"mysis_id must be your own ({self._owner}): you may search your own memories only")
            owner = self._owner
        query = MemoryQuery(
            arguments.query,
            column=column,
            match=MatchMode(arguments.match),
            mysis_ids=None if owner is None else (owner,),
            since=arguments.since,
            until=arguments.until,
            role=Role(arguments.role) if arguments.role else None,
            source=Source(arguments.source) if arguments.source else None,
            before_id=arguments.before_id,
            limit=arguments.limit,
            max_chars=arguments.max_chars,
            asking_call=asking_call,
        )
        page = await self._source.search_memories(query)
        return _search_answer(page, query.match, _fit_rows(page.hits, self._rows.memory_row))

    async def search_broadcasts(self, arguments: SearchArguments) -> Row:
        """Search broadcasts: those that `owner` sent or received, or all."""
        query = BroadcastQuery(
            arguments.query,
            match=MatchMode(arguments.match),
            mysis_id=self._owner,
            since=arguments.since,
            until=arguments.until,
            before_id=arguments.before_id,
            limit=arguments.limit,
            max_chars=arguments.max_chars,
        )
        page = await self._source.search_broadcasts(query)
        return _search_answer(page, query.match, _fit_rows(page.hits, self._rows.broadcast_row))

    async def read(self, arguments: ReadArguments, max_chars: int) -> Row:
        """Read a part of a memory. Raises UsageError where it is not there or may not be read."""
        position, offset = arguments.position or 0, arguments.offset
        memory = await self._source.read_part(
            arguments.id, arguments.part, position=position, offset=offset, max_chars=max_chars, owner=self._owner
        )
        if memory is None:
            owned = "there is" if self._owner is None else "you have"
            raise UsageError(
                f"{owned} no memory {arguments.id}", hint="use an id that a search or a cut result gave you"
            )
        if memory.total is None:
            raise UsageError(f"position: memory {arguments.id} has no call {position}")
        answer = self._rows.part_row(memory, arguments)
        if arguments.part == "call":
            answer["position"] = position
        calls = call_rows(memory.calls)
        if calls:
            answer["calls"] = calls
        if len(calls) < len(memory.calls):
            answer["more_calls"] = len(memory.calls) - len(calls)
        text = start_of(memory.text, ROOM - size(answer))
        answer[self._rows.text_key(arguments)] = text
        end = offset + len(text)
        if text and end < memory.total:
            answer["next_offset"] = end
        return answer


class MysisRows:
    """Short rows for a model, with names of myses if it may read all."""

    def __init__(self, *, with_names: bool) -> None:
        self._with_names = with_names

    def memory_row(self, hit: MemoryHit) -> Row:
        row: Row = {"id": hit.memory_id}
        if self._with_names:
            row["mysis"] = hit.mysis
        row |= {"role": hit.role.value, "source": hit.source.value, "content": hit.content.text}
        if hit.spot is not HitPlace.CONTENT:
            row[hit.spot.value] = hit.excerpt.text
        if hit.position is not None:
            row["position"] = hit.position
        return {**row, **_cut(hit.excerpt), "created_at": iso_time(hit.created_at)}

    def broadcast_row(self, hit: BroadcastHit) -> Row:
        return {
            "id": hit.message_id,
            "sender": hit.sender or COMMANDER,
            "content": hit.excerpt.text,
            **_cut(hit.excerpt),
            "created_at": iso_time(hit.created_at),
        }

    def part_row(self, memory: MemoryPart, arguments: ReadArguments) -> Row:
        return {
            "id": memory.memory_id,
            "role": memory.role,
            "source": memory.source,
            "created_at": iso_time(memory.created_at),
            "offset": arguments.offset,
            "total_chars": memory.total,
            arguments.part: "",
            "next_offset": None,
        }

    def text_key(self, arguments: ReadArguments) -> str:
        return arguments.part


class ClientRows:
    """Rows of the output schemas in `zoea.tools.builtin.answers`."""

    def memory_row(self, hit: MemoryHit) -> Row:
        row: Row = {
            "id": hit.memory_id,
            "mysis_id": hit.mysis_id,
            "mysis": hit.mysis,
            "role": hit.role.value,
            "source": hit.source.value,
            "created_at": iso_time(hit.created_at),
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
            row["tool"] = shorten_name(hit.tool)
        if hit.sender_kind is not None:
            row["sender"] = COMMANDER if hit.sender_kind is SenderKind.COMMANDER else hit.sender
        return row

    def broadcast_row(self, hit: BroadcastHit) -> Row:
        return {
            "id": hit.message_id,
            "sender": COMMANDER if hit.sender_kind is SenderKind.COMMANDER else hit.sender,
            "created_at": iso_time(hit.created_at),
            "content": hit.excerpt.text,
            "is_cut": hit.excerpt.is_cut,
        }

    def part_row(self, memory: MemoryPart, arguments: ReadArguments) -> Row:
        return {
            "id": memory.memory_id,
            "mysis_id": memory.mysis_id,
            "mysis": memory.mysis,
            "role": memory.role,
            "source": memory.source,
            "created_at": iso_time(memory.created_at),
            "part": arguments.part,
            "offset": arguments.offset,
            "total_chars": memory.total,
            "calls": [],
        }

    def text_key(self, arguments: ReadArguments) -> str:
        return "text"


def iso_time(microseconds: int) -> str:
    """Format µs UTC as ISO 8601."""
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC).isoformat()


def _fit_rows(hits: Iterable[Found], make_row: Callable[[Found], Row]) -> list[Row]:
    """Make as many rows as fit into an answer. A row that is too long alone is shortened."""
    return within((make_row(fit_hit(hit, lambda one: size(make_row(one)) + 2 <= ROOM)) for hit in hits), ROOM)


def _search_answer(page: MemoryHits | BroadcastHits, match: MatchMode, rows: list[Row]) -> Row:
    """Make the answer: rows, the next page's id, and a hint if needed."""
    left, is_ranked = len(page.hits) - len(rows), match is MatchMode.RANKED
    hints = [page.note] if page.note else []
    answer: Row = {"results": rows}
    if is_ranked and left:
        hints.append(f"{left} more: narrow the query, or give a smaller limit or max_chars")
    elif left or page.before_id is not None:
        before = rows[-1]["id"] if left else page.before_id
        answer["next_before_id"] = before
        hints.append(f"{f'{left} more' if left else 'more'}, use before_id {before}")
    elif not rows:
        hints.append(_NO_WORDS if is_ranked else _NO_TEXT)
    if hints:
        answer["hint"] = "; ".join(hints)
    return answer


def _cut(excerpt: Excerpt) -> dict[str, int]:
    """Say where an excerpt begins in its text; empty for a whole text."""
    return {"from_char": excerpt.start, "total_chars": excerpt.total} if excerpt.is_cut else {}
