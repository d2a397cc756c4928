"""Zoea's own tools: how a mysis writes to others, waits, and reads what it no longer has in view.

Functions over `SwarmDesk`, in process. Names, arguments, limits and error texts:
spec/memory.md, "Search semantics"; waiting: spec/turns.md, "Waiting is honoured".
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from zoea.model.errors import UsageError, ZoeaError
from zoea.model.ports import SwarmDesk
from zoea.model.request import CallMeta, ToolResult, ToolSpec, Wait
from zoea.model.values import MysisView, Receipt
from zoea.tools.catalogue import digest
from zoea.tools.fields import Fields
from zoea.tools.policy import SearchScope, Send, ToolPolicy
from zoea.tools.results import failed

MAX_ANSWER = 12_000
"""Characters of one answer, as memory.md says."""
MAX_TEXT = 20_000
READ_CHARS = 10_000
WAIT_RANGE = (1, 3_600)
LIMIT_RANGE = (1, 100)
COMMANDER = "commander"

_SEARCHES = {
    "zoea_search_messages": ("content", "your stored messages, tool results and the broadcasts you received"),
    "zoea_search_broadcasts": ("broadcasts", "the broadcasts you sent or received"),
    "zoea_search_reasoning": ("reasoning", "your own stored reasoning"),
}
_NO_HIT = "Nothing contains exactly this text. The search is case-sensitive: try a shorter or different part."

Handler = Callable[[Fields, CallMeta, ToolPolicy], Awaitable[ToolResult]]


def desk_tools(policy: ToolPolicy) -> tuple[ToolSpec, ...]:
    """Zoea's own tools as a template's policy leaves them, before allow and deny."""
    tools = [_list_myses(), _wait(), *(_search(name) for name in _SEARCHES), _read_memory()]
    if policy.send is Send.SWARM:
        tools = [_send_message(), _broadcast(), *tools]
    elif policy.send is Send.COMMANDER:
        tools = [_send_commander(), *tools]
    return tuple(tools)


class DeskTools:
    """Carries out Zoea's own tools for one mysis after another."""

    def __init__(self, desk: SwarmDesk) -> None:
        self._desk = desk
        self._handlers: dict[str, Handler] = {
            "zoea_send_message": self._send,
            "zoea_broadcast": self._broadcast,
            "zoea_list_myses": self._list,
            "zoea_wait": self._wait,
            "zoea_read_memory": self._read,
            **{name: self._searcher(name) for name in _SEARCHES},
        }

    async def call(self, name: str, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        """One call. Errors of the swarm and of the arguments are error results that say what to do."""
        fields = Fields(arguments)
        try:
            result = await self._handlers[name](fields, meta, policy)
        except ZoeaError as error:
            return failed(f"{error.what}. {error.hint}" if error.hint else error.what)
        return result

    async def _send(self, fields: Fields, meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        to = fields.text("to") if policy.send is Send.SWARM else fields.text("to", default=COMMANDER)
        text = fields.text("text", at_most=MAX_TEXT)
        fields.no_more()
        if policy.send is not Send.SWARM and to.lower() != COMMANDER:
            raise UsageError(f"to must be {COMMANDER}: you may write to the commander only")
        return _receipt(await self._desk.desk_send(meta.mysis_id, meta.hop, to, text))

    async def _broadcast(self, fields: Fields, meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        text = fields.text("text", at_most=MAX_TEXT)
        fields.no_more()
        return _receipt(await self._desk.desk_broadcast(meta.mysis_id, meta.hop, text))

    async def _list(self, fields: Fields, meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        fields.no_more()
        myses = await self._desk.desk_list(meta.mysis_id)
        return _json({"you": meta.mysis}, "myses", [_row(view) for view in myses], "")

    async def _wait(self, fields: Fields, meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        seconds = fields.number("seconds", *WAIT_RANGE)
        tick = fields.whole("until_tick", 0, None)
        reason = fields.text("reason", at_most=500)
        fields.no_more()
        if (seconds is None) == (tick is None):
            raise UsageError("give either seconds or until_tick" + (", not both" if tick is not None else ""))
        until = f"for {seconds:g} seconds" if seconds is not None else f"until tick {tick}"
        wait = Wait(seconds=seconds, until_tick=tick, reason=reason)
        return ToolResult(content=f"You wait {until}. Your turn ends now; a message wakes you earlier.", wait=wait)

    def _searcher(self, name: str) -> Handler:
        column, _ = _SEARCHES[name]

        async def search(fields: Fields, meta: CallMeta, policy: ToolPolicy) -> ToolResult:
            query = fields.raw_text("query")
            limit = fields.whole("limit", *LIMIT_RANGE)
            whose = fields.whole("mysis_id", 1, None) if column != "broadcasts" else None
            fields.no_more()
            if not query:
                raise UsageError("query cannot be empty")
            if whose is not None and whose != meta.mysis_id and policy.search is not SearchScope.SWARM:
                raise UsageError(f"mysis_id must be your own ({meta.mysis_id}): you may search your own memories only")
            owner = whose if whose is not None else meta.mysis_id
            rows = await self._desk.desk_search(owner, column, query, 20 if limit is None else limit)
            return _json({}, "results", rows, "" if rows else _NO_HIT)

        return search

    async def _read(self, fields: Fields, meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        memory = fields.whole("id", 1, None)
        offset = fields.whole("offset", 0, None)
        fields.no_more()
        if memory is None:
            raise UsageError("id is missing: give the id of a memory, as a search shows it")
        found = await self._desk.desk_read(meta.mysis_id, memory, offset or 0, READ_CHARS)
        return ToolResult(content=json.dumps(found, ensure_ascii=False, default=str))


def _receipt(receipt: Receipt) -> ToolResult:
    lines = [f"{line.mysis}: {line.status}" + (f" ({line.reason})" if line.reason else "") for line in receipt.lines]
    shown = lines[:20] + ([f"and {len(lines) - 20} more"] if len(lines) > 20 else [])
    return ToolResult(content="\n".join([f"sent to {receipt.delivered}", *shown]), is_error=receipt.delivered == 0)


def _row(view: MysisView) -> dict[str, Any]:
    row: dict[str, Any] = {"id": view.id, "name": view.name, "state": view.state.value, "activity": view.activity.value}
    if view.tags:
        row["tags"] = list(view.tags)
    return row


def _json(head: Mapping[str, Any], key: str, rows: Sequence[Mapping[str, Any]], hint: str) -> ToolResult:
    """Rows as JSON within `MAX_ANSWER`; what does not fit is counted."""
    kept: list[Mapping[str, Any]] = []
    size = 200 + len(hint)
    for row in rows:
        size += len(json.dumps(row, ensure_ascii=False, default=str)) + 2
        if kept and size > MAX_ANSWER:
            break
        kept.append(row)
    left = len(rows) - len(kept)
    answer: dict[str, Any] = {**head, key: kept}
    if left:
        hint = f"{left} more: narrow the query or give a smaller limit"
    if hint:
        answer["hint"] = hint
    return ToolResult(content=json.dumps(answer, ensure_ascii=False, default=str))


def _spec(name: str, description: str, properties: dict[str, Any], required: list[str], *, reads: bool) -> ToolSpec:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    return ToolSpec(
        name=name,
        description=description,
        input_schema=schema,
        origin=name,
        read_only=reads,
        idempotent=reads,
        schema_hash=digest([name, description, schema]),
    )


def _string(description: str, *, at_most: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "string", "minLength": 1, "description": description}
    return {**found, "maxLength": at_most} if at_most else found


def _number(description: str, least: int, most: int | None = None, *, kind: str = "integer") -> dict[str, Any]:
    found: dict[str, Any] = {"type": kind, "minimum": least, "description": description}
    return {**found, "maximum": most} if most is not None else found


def _send_message() -> ToolSpec:
    return _spec(
        "zoea_send_message",
        "Send a message to one other mysis of your swarm. It reads it in its next turn; its answer, if any, comes to "
        "you as a message. Use zoea_list_myses to see the names.",
        {
            "to": _string("The name of the mysis that shall read it."),
            "text": _string("What you want to say.", at_most=MAX_TEXT),
        },
        ["to", "text"],
        reads=False,
    )


def _send_commander() -> ToolSpec:
    return _spec(
        "zoea_send_message",
        "Send a message to the commander, the person in charge.",
        {
            "to": {"type": "string", "enum": [COMMANDER], "description": "Always commander."},
            "text": _string("What you want to say.", at_most=MAX_TEXT),
        },
        ["text"],
        reads=False,
    )


def _broadcast() -> ToolSpec:
    return _spec(
        "zoea_broadcast",
        "Send one message to all other myses of your swarm. Use it for what concerns everybody; you may do so only a "
        "few times an hour.",
        {"text": _string("What you want to say to all.", at_most=MAX_TEXT)},
        ["text"],
        reads=False,
    )


def _list_myses() -> ToolSpec:
    return _spec(
        "zoea_list_myses", "List the myses of your swarm: name, id, state, what they do now.", {}, [], reads=True
    )


def _wait() -> ToolSpec:
    return _spec(
        "zoea_wait",
        "End your turn and sleep, for some seconds or until a tick of the world. Use it when nothing useful can be "
        "done now, for instance while travelling. A message wakes you earlier. Give seconds or until_tick, not both.",
        {
            "seconds": _number("How long to wait, 1 to 3600 seconds.", *WAIT_RANGE, kind="number"),
            "until_tick": _number("The absolute tick at which to go on.", 0),
            "reason": _string("What you wait for, in a few words.", at_most=500),
        },
        ["reason"],
        reads=False,
    )


def _search(name: str) -> ToolSpec:
    column, what = _SEARCHES[name]
    properties = {
        "query": _string("Text that must occur exactly so, upper and lower case matter."),
        "limit": _number("How many results at most, 1 to 100; 20 if left out.", *LIMIT_RANGE),
    }
    if column != "broadcasts":
        properties["mysis_id"] = _number("Leave it out: it is your own id.", 1)
    description = f"Search {what}, newest first. Use it for anything older than what you see."
    return _spec(name, description, properties, ["query"], reads=True)


def _read_memory() -> ToolSpec:
    return _spec(
        "zoea_read_memory",
        "Read one of your stored memories in full, by the id that a search or a note about left-out characters shows. "
        "Long ones come in parts: give offset to read on.",
        {
            "id": _number("The id of the memory.", 1),
            "offset": _number("From which character on; 0 if left out.", 0),
        },
        ["id"],
        reads=True,
    )
