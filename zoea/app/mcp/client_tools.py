"""What Zoea's tools do for a client of the MCP server. The SDK is not needed here.

How they are described stands in `zoea.tools.own`. Every answer is one object of the
schema that stands there; every refusal is a ZoeaError that names the field.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from zoea.app.mcp.library import Library
from zoea.app.mcp.reach import Reach
from zoea.app.mcp.rows import LAST_CHARS, iso, mysis_row, receipt_row, within
from zoea.app.mcp.searching import Searching
from zoea.app.mcp.tokens import Client
from zoea.app.stored import stored_view
from zoea.model.errors import NoRunningSwarm, StoreMissing, UsageError
from zoea.model.values import SwarmView
from zoea.tools import own
from zoea.tools.fields import Fields

LISTED_CALLS = 50

_MEMORY = """
SELECT m.id, m.mysis_id, y.name AS mysis, m.role, m.source, m.created_at, m.turn_id,
  length(m.{part}) AS total, substr(m.{part}, :first, :most) AS text
FROM memory m JOIN mysis y ON y.id = m.mysis_id WHERE m.id = :id
"""
_CALLS = """
SELECT name, substr(arguments, 1, 500) AS arguments FROM tool_call WHERE memory_id = :id ORDER BY position LIMIT :listed
"""
_ANSWER = """
SELECT id, substr(content, 1, :most) AS text FROM memory
WHERE mysis_id = :mysis AND role = 'assistant' AND content <> '' ORDER BY id DESC LIMIT 1
"""

Handler = Callable[[Fields, Client], Awaitable[dict[str, Any]]]


class ClientTools:
    """Carries out the tools for one client after another.

    Args:
        reach: Where the swarm is.
        library: What is stored of it.
    """

    def __init__(self, reach: Reach, library: Library) -> None:
        self._reach = reach
        self._library = library
        searching = Searching(library)
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

    async def call(self, name: str, arguments: Mapping[str, Any], client: Client) -> dict[str, Any]:
        """One call: the answer's object, at most `MAX_ANSWER` characters as JSON.

        Raises:
            ZoeaError: what the client is to be told.
            KeyError: there is no such tool.
        """
        handler = self._handlers[name]
        if name in own.COMMANDS and not client.may_command:
            raise UsageError(
                f"the token {client.name} may only read", hint="ask the commander for one with the scope command"
            )
        return await handler(Fields(arguments), client)

    async def view(self, client: Client) -> tuple[SwarmView, bool]:
        """The swarm, and whether somebody runs it; else what is stored of it. Raises StoreError."""
        try:
            return await (await self._reach.swarm(client)).view(), True
        except NoRunningSwarm:
            return await self._library.ask(lambda _: stored_view(self._library.database)), False

    # Reading.

    async def _read(self, fields: Fields, client: Client) -> dict[str, Any]:
        memory = fields.whole("id", 1, None)
        offset = fields.whole("offset", 0, None) or 0
        most = fields.whole("max_chars", *own.CUT_RANGE) or own.READ_CHARS
        part = fields.choice("part", own.PARTS, "content")
        fields.no_more()
        if memory is None:
            raise UsageError("id is missing: give the id of a memory, as a search shows it")
        given = {"id": memory, "first": offset + 1, "most": most, "listed": LISTED_CALLS}

        def read(reader: sqlite3.Connection) -> tuple[sqlite3.Row | None, list[sqlite3.Row]]:
            row = reader.execute(_MEMORY.format(part=part), given).fetchone()
            return row, reader.execute(_CALLS, given).fetchall() if part == "content" and not offset else []

        row, calls = await self._library.ask(read)
        if row is None:
            raise UsageError(f"id: there is no memory {memory}", hint="use an id that a search showed")
        answer = {
            **{name: row[name] for name in ("id", "mysis_id", "mysis", "role", "source")},
            "created_at": iso(row["created_at"]),
            "part": part,
            "offset": offset,
            "total_chars": row["total"],
            "text": row["text"],
            "calls": within([dict(call) for call in calls], own.MAX_ANSWER - own.CUT - len(row["text"])),
        }
        end = offset + len(row["text"])
        return {**answer, "next_offset": end} if end < row["total"] and row["text"] else answer

    async def _list(self, fields: Fields, client: Client) -> dict[str, Any]:
        fields.no_more()
        try:
            view, is_running = await self.view(client)
        except StoreMissing:
            return {"is_running": False, "is_held": False, "myses": [], "more": 0}
        listed = within([mysis_row(mysis) for mysis in view.myses], own.MAX_ANSWER - LAST_CHARS)
        return {
            "is_running": is_running,
            "is_held": view.held,
            "myses": listed,
            "more": len(view.myses) - len(listed),
        }

    # Commanding.

    async def _send(self, fields: Fields, client: Client) -> dict[str, Any]:
        to = fields.text("to")
        text = fields.text("text", at_most=own.MAX_TEXT)
        fields.no_more()
        swarm = await self._reach.swarm(client)
        return receipt_row(await swarm.send(to, text, sender=client.sender))

    async def _broadcast(self, fields: Fields, client: Client) -> dict[str, Any]:
        text = fields.text("text", at_most=own.MAX_TEXT)
        fields.no_more()
        swarm = await self._reach.swarm(client)
        return receipt_row(await swarm.broadcast(text, sender=client.sender))

    # Waiting.

    async def _wait(self, fields: Fields, client: Client) -> dict[str, Any]:
        ref = fields.text("mysis")
        seconds = fields.number("seconds", *own.CLIENT_WAIT_RANGE)
        fields.no_more()
        swarm = await self._reach.swarm(client)
        is_done = True
        try:
            view = await swarm.wait(ref, timeout_s=own.CLIENT_WAIT if seconds is None else seconds)
        except UsageError:
            is_done = False  # the time is over; the mysis is still there or the next line says otherwise
            view = await swarm.mysis(ref)
        given = {"mysis": view.id, "most": own.READ_CHARS}
        found = await self._library.ask(lambda reader: reader.execute(_ANSWER, given).fetchone())
        answer = {"is_done": is_done, "mysis": mysis_row(view), "answer": found["text"] if found else ""}
        return {**answer, "answer_id": found["id"]} if found else answer
