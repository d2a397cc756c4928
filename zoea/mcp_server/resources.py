"""Resources of the MCP server: newest turns of each mysis, newest broadcasts."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from mcp_types import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from zoea.mcp_server.client_tools import ClientTools
from zoea.mcp_server.tokens import McpClient
from zoea.model.enums import SenderKind
from zoea.model.errors import MysisMissing, StoreMissing, UsageError, ZoeaError
from zoea.queries.conversation import read_newest
from zoea.queries.stored_swarm import read_mysis_view
from zoea.store.memory_reader import MemoryReader
from zoea.store.search import BroadcastHit
from zoea.text.control_characters import reveal
from zoea.tools.builtin.answer_size import within
from zoea.tools.builtin.arguments import COMMANDER
from zoea.tools.builtin.memory_tools import iso_time
from zoea.transfer.export import code_block, escape_line, markdown_turn

BROADCASTS = "zoea://broadcasts"
TRANSCRIPT = "zoea://myses/{name}/transcript"
PAGE = 100
SHOWN_CHARS = 60_000
"""The largest size of a resource, in characters."""
SHOWN_BROADCASTS = 100
BROADCAST_CHARS = 4_000


class MissingResource(ZoeaError):
    """There is no such resource."""

    title = "No such resource"


class SwarmResources:
    """The resources of a swarm; see `zoea.mcp_server.factory.ResourceProvider`."""

    def __init__(self, tools: ClientTools, memories: MemoryReader) -> None:
        self._tools = tools
        self._memories = memories

    async def list_page(self, client: McpClient, cursor: str) -> ListResourcesResult:
        if cursor and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
            raise UsageError("cursor is not from a list of resources")
        try:
            view, _ = await self._tools.view(client)
            myses = view.myses
        except StoreMissing:
            myses = ()
        after = int(cursor or 0)
        page = [mysis for mysis in myses if mysis.id > after][: PAGE + 1]
        resources = [] if after else [_broadcasts()]
        resources += [_transcript(mysis.name) for mysis in page[:PAGE]]
        next_cursor = str(page[PAGE - 1].id) if len(page) > PAGE else None
        return ListResourcesResult(resources=resources, next_cursor=next_cursor)

    def templates(self) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(
            resource_templates=[
                ResourceTemplate(
                    uri_template=TRANSCRIPT,
                    name="transcript",
                    title="Transcript of a mysis",
                    description="The newest turns of a mysis, as Markdown.",
                    mime_type="text/markdown",
                )
            ]
        )

    async def read(self, client: McpClient, uri: str) -> ReadResourceResult:
        parts = urlsplit(uri)
        match (parts.scheme, parts.netloc, parts.path.strip("/").split("/")):
            case ("zoea", "broadcasts", [""]):
                text, kind = await self._broadcasts_text(), "application/json"
            case ("zoea", "myses", [name, "transcript"]) if name:
                text, kind = await self._transcript_text(unquote(name), uri), "text/markdown"
            case _:
                raise MissingResource(f"Resource not found: {uri[:200]}")
        contents = TextResourceContents(uri=uri, mime_type=kind, text=text)
        return ReadResourceResult(contents=[contents])

    async def _broadcasts_text(self) -> str:
        try:
            return _broadcasts_json(await self._memories.read_broadcasts(SHOWN_BROADCASTS, BROADCAST_CHARS))
        except StoreMissing:
            return "[]"

    async def _transcript_text(self, name: str, uri: str) -> str:
        database = self._memories.database

        def read(_: sqlite3.Connection) -> str:
            mysis = read_mysis_view(database, name)
            page = read_newest(database, mysis.id)
            turns: list[str] = []
            room = SHOWN_CHARS
            for turn in reversed(page.turns):
                pieces = list(markdown_turn(turn, reveal))
                room -= sum(map(len, pieces))
                if turns and room < 0:
                    break
                turns.insert(0, keep_newest(pieces))
            older = "Older turns are not shown here: zoea_search_messages finds them.\n"
            has_older = page.has_older or len(turns) < len(page.turns)
            return f"# {escape_line(reveal(mysis.name))}\n\n{older if has_older else ''}{''.join(turns)}"

        try:
            return await self._memories.run(read)
        except (MysisMissing, StoreMissing):
            raise MissingResource(f"Resource not found: {uri[:200]}") from None


def keep_newest(pieces: list[str]) -> str:
    """Return the end of a turn within the limit, in whole pieces where possible."""
    kept: list[str] = []
    room = SHOWN_CHARS
    for piece in reversed(pieces):
        if len(piece) > room:
            kept += [] if kept else [code_block(piece[-SHOWN_CHARS:])]
            break
        room -= len(piece)
        kept.append(piece)
    return "".join(reversed(kept))


def _broadcasts() -> Resource:
    return Resource(
        uri=BROADCASTS,
        name="broadcasts",
        title="Broadcasts",
        description="The newest messages to the whole swarm, newest first.",
        mime_type="application/json",
    )


def _transcript(name: str) -> Resource:
    return Resource(
        uri=TRANSCRIPT.format(name=quote(name, safe="")),
        name=f"transcript of {name}",
        title=f"Transcript of {name}",
        description=f"The newest turns of {name}, as Markdown.",
        mime_type="text/markdown",
    )


def _broadcasts_json(broadcasts: Iterable[BroadcastHit]) -> str:
    rows: list[dict[str, Any]] = [
        {
            "id": hit.message_id,
            "sender": COMMANDER if hit.sender_kind is SenderKind.COMMANDER else hit.sender,
            "created_at": iso_time(hit.created_at),
            "content": hit.excerpt.text,
        }
        for hit in broadcasts
    ]
    return json.dumps(within(rows, SHOWN_CHARS), ensure_ascii=False, indent=1)
