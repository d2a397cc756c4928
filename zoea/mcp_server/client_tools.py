"""What Zoea's tools do for a client of the MCP server. The SDK is not needed here.

How they are described stands in `zoea.tools.builtin.schemas`. Every answer is one object of the
schema that stands there; every refusal is a ZoeaError that names the field.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from shlex import quote
from typing import Any

from zoea.mcp_server.client_rows import iso, mysis_row, receipt_row
from zoea.mcp_server.memory_readers import MemoryReaders
from zoea.mcp_server.search_tools import Searching
from zoea.mcp_server.swarm_client import SwarmClient
from zoea.mcp_server.tokens import McpClient
from zoea.model.errors import NoRecipients, NoRunningSwarm, StateRefused, StoreMissing, UsageError
from zoea.model.values import SwarmView
from zoea.queries.stored_swarm import read_swarm_view
from zoea.tools.builtin import schemas
from zoea.tools.builtin.answer_size import call_rows, size, start_of, within
from zoea.tools.builtin.tool_arguments import Fields, listing, reading

_MEMORY = """
SELECT id, mysis_id, mysis, role, source, created_at, length(whole) AS total, substr(whole, :first, :most) AS text
FROM (SELECT m.id, m.mysis_id, y.name AS mysis, m.role, m.source, m.created_at, {whole} AS whole
  FROM memory m JOIN mysis y ON y.id = m.mysis_id WHERE m.id = :id)
"""
_WHOLE = {
    "content": "m.content",
    "reasoning": "m.reasoning",
    "call": "(SELECT k.name || '(' || k.arguments || ')' FROM tool_call k"
    " WHERE k.memory_id = m.id AND k.position = :position)",
}
_CALLS = """
SELECT position, name, substr(arguments, 1, 500), length(arguments) FROM tool_call WHERE memory_id = :id
ORDER BY position
"""
_ANSWER = """
SELECT id, substr(content, 1, :most) AS text FROM memory
WHERE mysis_id = :mysis AND role = 'assistant' AND content <> '' ORDER BY id DESC LIMIT 1
"""

_BESIDE_TEXT = 100
"""Characters for the fields that come to an answer after its text is cut."""

_KEY = " - press 'r' to relaunch"
"""What a refusal says to whoever sits before a cockpit; a client has no such key."""

Handler = Callable[[Fields, McpClient], Awaitable[dict[str, Any]]]


class ClientTools:
    """Carries out the tools for one client after another.

    Args:
        reach: Where the swarm is.
        library: What is stored of it.
    """

    def __init__(self, swarm_client: SwarmClient, readers: MemoryReaders) -> None:
        self._swarm_client = swarm_client
        self._readers = readers
        searching = Searching(readers)
        self._handlers: dict[str, Handler] = {
            "zoea_search_messages": searching.messages,
            "zoea_search_broadcasts": searching.broadcasts,
            "zoea_search_reasoning": searching.reasoning,
            "zoea_read_memory": self._read,
            "zoea_list_myses": self._list,
            "zoea_send_message": self._send,
            "zoea_broadcast": self._broadcast,
            "zoea_wait": self._wait,
        }

    async def call(self, name: str, arguments: Mapping[str, Any], client: McpClient) -> dict[str, Any]:
        """One call: the answer's object, at most `MAX_ANSWER` characters as JSON.

        Raises:
            ZoeaError: what the client is to be told.
            KeyError: there is no such tool.
        """
        handler = self._handlers[name]
        if name in schemas.COMMANDS and not client.may_command:
            raise UsageError(
                f"the token {client.name} may only read", hint="ask the commander for one with the scope command"
            )
        return await handler(Fields(arguments), client)

    async def view(self, client: McpClient) -> tuple[SwarmView, bool]:
        """The swarm, and whether somebody runs it; else what is stored of it. Raises StoreError."""
        try:
            return await (await self._swarm_client.swarm(client)).view(), True
        except NoRunningSwarm:
            return await self._readers.ask(lambda _: read_swarm_view(self._readers.database)), False

    # Reading.

    async def _read(self, fields: Fields, client: McpClient) -> dict[str, Any]:
        most = fields.whole("max_chars", *schemas.CUT_RANGE) or schemas.READ_CHARS
        asked = reading(fields)
        memory, part, offset = asked.memory, asked.part, asked.offset
        given = {"id": memory, "first": offset + 1, "most": most, "position": asked.position}

        def read(reader: sqlite3.Connection) -> tuple[sqlite3.Row | None, list[sqlite3.Row]]:
            row = reader.execute(_MEMORY.format(whole=_WHOLE[part]), given).fetchone()
            return row, reader.execute(_CALLS, given).fetchall() if part == "content" and not offset else []

        row, calls = await self._readers.ask(read)
        if row is None:
            raise UsageError(f"id: there is no memory {memory}", hint="use an id that a search showed")
        if row["total"] is None:
            raise UsageError(f"position: memory {memory} has no call {asked.position}")
        listed = call_rows([tuple(call) for call in calls])
        answer: dict[str, Any] = {
            **{name: row[name] for name in ("id", "mysis_id", "mysis", "role", "source")},
            "created_at": iso(row["created_at"]),
            "part": part,
            "offset": offset,
            "total_chars": row["total"],
            "calls": listed,
        }
        if part == "call":
            answer["position"] = asked.position
        if len(listed) < len(calls):
            answer["more_calls"] = len(calls) - len(listed)
        text = start_of(row["text"], schemas.MAX_ANSWER - size(answer) - _BESIDE_TEXT)
        answer["text"] = text
        end = offset + len(text)
        return {**answer, "next_offset": end} if end < row["total"] and text else answer

    async def _list(self, fields: Fields, client: McpClient) -> dict[str, Any]:
        asked = listing(fields)
        try:
            view, is_running = await self.view(client)
        except StoreMissing:
            return {"is_running": False, "is_held": False, "myses": [], "more": 0}
        myses = asked.of(view.myses)
        listed = within(map(mysis_row, myses), schemas.ROOM)
        answer = {
            "is_running": is_running,
            "is_held": view.held,
            "myses": listed,
            "more": len(myses) - len(listed),
        }
        return {**answer, "next_after_id": listed[-1]["id"]} if len(listed) < len(myses) else answer

    # Commanding.

    async def _send(self, fields: Fields, client: McpClient) -> dict[str, Any]:
        to = fields.text("to")
        text = fields.text("text", at_most=schemas.MAX_TEXT)
        fields.no_more()
        swarm = await self._swarm_client.swarm(client)
        try:
            return receipt_row(await swarm.send(to, text, sender=client.sender))
        except StateRefused as error:
            raise StateRefused(
                error.what.removesuffix(_KEY), hint=f"the commander must start it first: zoea start {quote(to)}"
            ) from None

    async def _broadcast(self, fields: Fields, client: McpClient) -> dict[str, Any]:
        text = fields.text("text", at_most=schemas.MAX_TEXT)
        fields.no_more()
        swarm = await self._swarm_client.swarm(client)
        try:
            return receipt_row(await swarm.broadcast(text, sender=client.sender))
        except NoRecipients as error:
            raise NoRecipients(error.what, hint="the commander must start one first: zoea start NAME") from None

    # Waiting.

    async def _wait(self, fields: Fields, client: McpClient) -> dict[str, Any]:
        ref = fields.text("mysis")
        seconds = fields.number("seconds", *schemas.CLIENT_WAIT_RANGE)
        fields.no_more()
        swarm = await self._swarm_client.swarm(client)
        is_done = True
        try:
            view = await swarm.wait(ref, timeout_s=schemas.CLIENT_WAIT if seconds is None else seconds)
        except UsageError:
            is_done = False  # the time is over; the mysis is still there or the next line says otherwise
            view = await swarm.mysis(ref)
        given = {"mysis": view.id, "most": schemas.READ_CHARS}
        found = await self._readers.ask(lambda reader: reader.execute(_ANSWER, given).fetchone())
        answer: dict[str, Any] = {"is_done": is_done, "mysis": mysis_row(view)}
        room = schemas.MAX_ANSWER - size(answer) - _BESIDE_TEXT
        answer["answer"] = start_of(found["text"], room) if found else ""
        return {**answer, "answer_id": found["id"]} if found else answer
