"""Zoea's own tools: how a mysis writes to others, waits, and reads what it no longer has in view.

Functions over `SwarmDesk`, in process; how they are described: `zoea.tools.builtin.schemas`. Arguments and error texts:
spec/memory.md, "Search semantics"; waiting: spec/turns.md, "Waiting is honoured".
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from zoea.model.enums import ASK_TOOL, Role, Source
from zoea.model.errors import UsageError, ZoeaError
from zoea.model.ports import SwarmDesk
from zoea.model.request import CallMeta, ToolResult, ToolSpec, Wait
from zoea.model.values import DeskFound, DeskSearch, MysisView, Receipt
from zoea.tools.builtin import schemas
from zoea.tools.builtin.answer_size import shown_tags, size, start_of, within
from zoea.tools.builtin.schemas import (
    COMMANDER,
    CUT,
    CUT_RANGE,
    LIMIT,
    LIMIT_RANGE,
    MATCHES,
    MAX_QUERY,
    MAX_TEXT,
    READ_CHARS,
    ROLES,
    ROOM,
    SOURCES,
    WAIT_RANGE,
    OwnTool,
)
from zoea.tools.builtin.tool_arguments import Fields, listing, reading
from zoea.tools.catalogue import digest
from zoea.tools.policy import SearchScope, Send, ToolPolicy
from zoea.tools.results import error_result

_SEARCHES = {
    "zoea_search_messages": (
        "content",
        "your stored messages, tool calls, tool results and the broadcasts you received",
        "what was said to all myses of your swarm, by them, and by their tools",
    ),
    "zoea_search_broadcasts": (
        "broadcasts",
        "the broadcasts you sent or received",
        "all broadcasts of your swarm",
    ),
    "zoea_search_reasoning": (
        "reasoning",
        "your own stored reasoning",
        "the stored reasoning of all myses of your swarm",
    ),
}
"""What each searches, and how that is said to a mysis with its own memories, or with everyone's."""
_NO_HIT = (
    "Nothing contains exactly this text. The search is case-sensitive: try a shorter or different part, or match "
    "ranked, which finds the words in any case."
)
_NO_WORDS = "Nothing holds these words. Try fewer or other words."

Handler = Callable[[Fields, CallMeta, ToolPolicy], Awaitable[ToolResult]]


def desk_tools(policy: ToolPolicy) -> tuple[ToolSpec, ...]:
    """Zoea's own tools as a template's policy leaves them, before allow and deny."""
    everyone = policy.search is SearchScope.SWARM
    searches = [
        schemas.mysis_search(name, what[everyone], of_memories=column != "broadcasts", everyone=everyone)
        for name, (column, *what) in _SEARCHES.items()
    ]
    tools = [schemas.mysis_list(), schemas.mysis_wait(), *searches, schemas.mysis_read(everyone=everyone)]
    if policy.send is not Send.NONE:
        tools = [schemas.mysis_ask(), *tools]
    if policy.send is Send.SWARM:
        tools = [schemas.mysis_send(), schemas.mysis_broadcast(), *tools]
    elif policy.send is Send.COMMANDER:
        tools = [schemas.mysis_send_commander(), *tools]
    return tuple(_spec(tool) for tool in tools)


class DeskTools:
    """Carries out Zoea's own tools for one mysis after another."""

    def __init__(self, desk: SwarmDesk) -> None:
        self._desk = desk
        self._handlers: dict[str, Handler] = {
            "zoea_send_message": self._send,
            "zoea_broadcast": self._broadcast,
            "zoea_list_myses": self._list,
            "zoea_wait": self._wait,
            ASK_TOOL: self._ask,
            "zoea_read_memory": self._read,
            **{name: self._searcher(name) for name in _SEARCHES},
        }

    async def call(self, name: str, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        """One call. Errors of the swarm and of the arguments are error results that say what to do."""
        fields = Fields(arguments)
        try:
            result = await self._handlers[name](fields, meta, policy)
        except ZoeaError as error:
            return error_result(f"{error.what}. {error.hint}" if error.hint else error.what)
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
        myses = listing(fields).of(await self._desk.desk_list(meta.mysis_id))
        kept = within(map(_row, myses), ROOM)
        answer: dict[str, Any] = {"you": meta.mysis, "myses": kept}
        if left := len(myses) - len(kept):
            answer |= {"next_after_id": kept[-1]["id"], "hint": f"{left} more, use after_id {kept[-1]['id']}"}
        return ToolResult(content=json.dumps(answer, ensure_ascii=False))

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

    async def _ask(self, fields: Fields, meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        """The commander has answered by now: the call waited for it as one that needs an approval."""
        fields.text("question", at_most=MAX_TEXT)
        fields.no_more()
        answer = await self._desk.desk_answer(meta.mysis_id, meta.call_id)
        if not answer:
            raise UsageError("the commander gave no answer")
        return ToolResult(content=f"The commander answers: {answer}")

    def _searcher(self, name: str) -> Handler:
        column = _SEARCHES[name][0]

        async def search(fields: Fields, meta: CallMeta, policy: ToolPolicy) -> ToolResult:
            asked = _asked(fields, column, meta, policy)
            return _page(await self._desk.desk_search(meta.mysis_id, asked), ranked=asked.ranked)

        return search

    async def _read(self, fields: Fields, meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        asked = reading(fields)
        found = await self._desk.desk_read(
            meta.mysis_id,
            asked.memory,
            asked.offset,
            READ_CHARS,
            part=asked.part,
            position=asked.position,
            everyone=policy.search is SearchScope.SWARM,
        )
        whole = found[asked.part]
        text = start_of(whole, ROOM - size({**found, asked.part: ""}))
        if len(text) < len(whole):
            found |= {asked.part: text, "next_offset": asked.offset + len(text)}
        return ToolResult(content=json.dumps(found, ensure_ascii=False, default=str))


def _asked(fields: Fields, column: str, meta: CallMeta, policy: ToolPolicy) -> DeskSearch:
    """What a mysis asks for, and may: its own memories, or anyone's where its template says so."""
    query = fields.raw_text("query")
    limit = fields.whole("limit", *LIMIT_RANGE)
    ranked = fields.choice("match", MATCHES, MATCHES[0]) == MATCHES[1]
    since, until, before = fields.moment("since"), fields.moment("until"), fields.whole("before_id", 1, None)
    max_chars = fields.whole("max_chars", *CUT_RANGE)
    role = source = ""
    whose = None
    if column != "broadcasts":
        role, source = fields.choice("role", ROLES), fields.choice("source", SOURCES)
        whose = fields.whole("mysis_id", 1, None)
    fields.no_more()
    if not query:
        raise UsageError("query cannot be empty")
    if len(query) > MAX_QUERY:
        raise UsageError(f"query must have at most {MAX_QUERY} characters, not {len(query)}")
    if policy.search is not SearchScope.SWARM:
        if whose not in (None, meta.mysis_id):
            raise UsageError(f"mysis_id must be your own ({meta.mysis_id}): you may search your own memories only")
        whose = meta.mysis_id
    return DeskSearch(
        column=column,
        query=query,
        whose=whose,
        limit=LIMIT if limit is None else limit,
        ranked=ranked,
        role=Role(role) if role else None,
        source=Source(source) if source else None,
        since=since,
        until=until,
        before_id=before,
        max_chars=CUT if max_chars is None else max_chars,
    )


def _page(found: DeskFound, *, ranked: bool) -> ToolResult:
    """The rows that fit into an answer, and how to see the others."""
    kept = within(found.rows, ROOM)
    left = len(found.rows) - len(kept)
    hints = [found.note] if found.note else []
    answer: dict[str, Any] = {"results": kept}
    if not found.rows and found.before_id is None:
        hints.append(_NO_WORDS if ranked else _NO_HIT)
    elif ranked and left:
        hints.append(f"{left} more: narrow the query, or give a smaller limit or max_chars")
    elif left or found.before_id is not None:
        before = kept[-1]["id"] if left else found.before_id
        answer["next_before_id"] = before
        hints.append(f"{f'{left} more' if left else 'more'}, use before_id {before}")
    if hints:
        answer["hint"] = "; ".join(hints)
    return ToolResult(content=json.dumps(answer, ensure_ascii=False, default=str))


def _receipt(receipt: Receipt) -> ToolResult:
    lines = [f"{line.mysis}: {line.status}" + (f" ({line.reason})" if line.reason else "") for line in receipt.lines]
    shown = lines[:20] + ([f"and {len(lines) - 20} more"] if len(lines) > 20 else [])
    return ToolResult(content="\n".join([f"sent to {receipt.delivered}", *shown]), is_error=receipt.delivered == 0)


def _row(view: MysisView) -> dict[str, Any]:
    row: dict[str, Any] = {"id": view.id, "name": view.name, "state": view.state.value, "activity": view.activity.value}
    if view.tags:
        row["tags"] = shown_tags(view.tags)
    return row


def _spec(tool: OwnTool) -> ToolSpec:
    schema = tool.input_schema
    return ToolSpec(
        name=tool.name,
        description=tool.description,
        input_schema=schema,
        origin=tool.name,
        read_only=tool.reads,
        idempotent=tool.reads,
        asks=tool.name == ASK_TOOL,
        schema_hash=digest([tool.name, tool.description, schema]),
    )
