"""Zoea's own tools for clients of the MCP server. Does not need the SDK.

Every answer is an object of the tool's output schema; every refusal is a ZoeaError.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from shlex import quote
from typing import Any

from zoea.context.window.prompt_context import parse_prompt_context
from zoea.mcp_server.swarm_client import SwarmClient
from zoea.mcp_server.tokens import McpClient
from zoea.model.enums import SEND_TOOL
from zoea.model.errors import NoRecipients, NoRunningSwarm, StateRefused, StoreMissing, UsageError
from zoea.model.topics import TopicMessage
from zoea.model.values import MysisView, Receipt, ReceiptLine, SwarmView
from zoea.queries.stored_swarm import read_swarm_view
from zoea.store.memory_reader import MemoryReader
from zoea.store.search import SearchColumn
from zoea.store.topic_reader import read_newest_messages, read_topics
from zoea.swarm.commit_tools import CommitTools
from zoea.text.shorten import head
from zoea.tools.builtin.answer_size import ROOM, shorten_tags, size, start_of, within
from zoea.tools.builtin.arguments import (
    READ_CHARS,
    BroadcastArguments,
    ClientReadArguments,
    ClientSendArguments,
    ContextAskArguments,
    ContextForkArguments,
    ListArguments,
    MemorySearchArguments,
    PublishArguments,
    ReadTopicArguments,
    SearchArguments,
    WaitForMysisArguments,
)
from zoea.tools.builtin.definitions import COMMANDS
from zoea.tools.builtin.memory_tools import ClientRows, MemoryTools
from zoea.tools.builtin.topic_rows import read_topic_rows

_LISTED_RECIPIENTS = 50
_LAST_CHARS = 200
_KEY_HINT = " - press 'r' to relaunch"
"""The end of a refusal for a person before a cockpit; a client has no such key."""

Arguments = Mapping[str, Any]
Handler = Callable[[Arguments, McpClient], Awaitable[dict[str, Any]]]


class ClientTools:
    """Carries out the tools for all clients."""

    def __init__(self, swarm_client: SwarmClient, memories: MemoryReader) -> None:
        self._swarm_client = swarm_client
        self._memories = memories
        self._memory_tools = MemoryTools(memories, ClientRows())
        self._contexts = CommitTools(memories)
        self._handlers: dict[str, Handler] = {
            "zoea_search_messages": self._search_messages,
            "zoea_search_broadcasts": self._search_broadcasts,
            "zoea_search_reasoning": self._search_reasoning,
            "zoea_read_memory": self._read,
            "zoea_list_myses": self._list,
            SEND_TOOL: self._send,
            "zoea_broadcast": self._broadcast,
            "zoea_publish": self._publish,
            "zoea_read_topic": self._read_topic,
            "zoea_wait": self._wait,
            "zoea_context_log": self._context_log,
            "zoea_context_materialize": self._context,
            "zoea_context_show": self._context_show,
            "zoea_context_resolve": self._context_resolve,
            "zoea_context_checkpoint": self._context_checkpoint,
            "zoea_context_annotate": self._context_annotate,
            "zoea_context_ask": self._context_ask,
            "zoea_context_fork": self._context_fork,
        }

    async def call(self, name: str, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        """Carry out one call; the answer has at most `MAX_ANSWER` characters as JSON.

        Raises:
            ZoeaError: A refusal, for the client.
            KeyError: There is no such tool.
        """
        handler = self._handlers[name]
        if name in COMMANDS and not client.may_command:
            raise UsageError(
                f"the token {client.name} may only read", hint="ask the commander for one with the scope command"
            )
        return await handler(arguments, client)

    async def view(self, client: McpClient) -> tuple[SwarmView, bool]:
        """Return the swarm, and whether it runs; else the stored one. Raises StoreError."""
        try:
            return await (await self._swarm_client.swarm(client)).view(), True
        except NoRunningSwarm:
            return await self._memories.run(lambda _: read_swarm_view(self._memories.database)), False

    async def _search_messages(self, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        return await self._memory_tools.search(SearchColumn.CONTENT, MemorySearchArguments.parse(arguments))

    async def _search_reasoning(self, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        return await self._memory_tools.search(SearchColumn.REASONING, MemorySearchArguments.parse(arguments))

    async def _search_broadcasts(self, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        return await self._memory_tools.search_broadcasts(SearchArguments.parse(arguments))

    async def _read(self, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        read = ClientReadArguments.parse(arguments)
        return await self._memory_tools.read(read, read.max_chars)

    async def _list(self, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        wanted = ListArguments.parse(arguments)
        try:
            view, is_running = await self.view(client)
        except StoreMissing:
            return {"is_running": False, "is_held": False, "myses": [], "more": 0}
        myses = wanted.select(view.myses)
        rows = within(map(_mysis_row, myses), ROOM)
        answer = {"is_running": is_running, "is_held": view.held, "myses": rows, "more": len(myses) - len(rows)}
        return {**answer, "next_after_id": rows[-1]["id"]} if len(rows) < len(myses) else answer

    async def _send(self, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        message = ClientSendArguments.parse(arguments)
        limits = parse_prompt_context(message.context)
        swarm = await self._swarm_client.swarm(client)
        try:
            receipt = await swarm.send(
                message.to, message.text, is_task=message.is_task, sender=client.sender, limits=limits.to_json()
            )
            notes = (*limits.ignored, *receipt.notes)
            return _receipt_row(receipt) | ({"note": " ".join(notes)} if notes else {})
        except StateRefused as error:
            raise StateRefused(
                error.what.removesuffix(_KEY_HINT),
                hint=f"the commander must start it first: zoea start {quote(message.to)}",
            ) from None

    async def _broadcast(self, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        text = BroadcastArguments.parse(arguments).text
        swarm = await self._swarm_client.swarm(client)
        try:
            return _receipt_row(await swarm.broadcast(text, sender=client.sender))
        except NoRecipients as error:
            raise NoRecipients(error.what, hint="the commander must start one first: zoea start NAME") from None

    async def _publish(self, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        parsed = PublishArguments.parse(arguments)
        swarm = await self._swarm_client.swarm(client)
        receipt = await swarm.publish(
            parsed.topic, parsed.text, data=parsed.data, receiver=parsed.receiver, sender=client.sender
        )
        rows = _recipient_rows(receipt.lines)
        answer = {
            "message_id": receipt.id,
            "topic": receipt.topic,
            "delivered": receipt.delivered,
            "recipients": rows,
            "more": len(receipt.lines) - len(rows),
        }
        return answer if receipt.snapshot_id is None else {**answer, "snapshot_id": receipt.snapshot_id}

    async def _read_topic(self, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        async def read_messages(topic: str, limit: int, before: int | None) -> tuple[TopicMessage, ...]:
            return await self._memories.run(
                lambda reader: read_newest_messages(reader, topic, limit=limit, before=before, max_chars=ROOM)
            )

        parsed = ReadTopicArguments.parse(arguments)
        return await read_topic_rows(parsed, lambda: self._memories.run(read_topics), read_messages)

    async def _context_log(self, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        return await self._contexts.list_commits(arguments)

    async def _context(self, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        return await self._contexts.read_conversation(arguments)

    async def _context_show(self, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        return await self._contexts.show(arguments)

    async def _context_resolve(self, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        return await self._contexts.resolve(arguments)

    async def _context_checkpoint(self, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        swarm = await self._swarm_client.swarm(client)
        return await self._contexts.checkpoint(arguments, swarm, swarm)

    async def _context_annotate(self, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        return await self._contexts.annotate(arguments, await self._swarm_client.swarm(client))

    async def _context_ask(self, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        parsed = ContextAskArguments.parse(arguments)
        swarm = await self._swarm_client.swarm(client)
        asked = await swarm.ask(parsed.context, parsed.question, thread=parsed.thread, sender=client.sender)
        return await self._contexts.wait_for_answer(asked, swarm, parsed.seconds)

    async def _context_fork(self, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        parsed = ContextForkArguments.parse(arguments)
        swarm = await self._swarm_client.swarm(client)
        key = f"mcp-{client.name}-{parsed.key}" if parsed.key else ""
        made = await swarm.create("", template=parsed.template, commit=parsed.context, idempotency_key=key)
        if parsed.message.strip():
            await swarm.send(f"#{made.id}", parsed.message, sender=client.sender, idempotency_key=key)
        return {"mysis": _mysis_row(made)}

    async def _wait(self, arguments: Arguments, client: McpClient) -> dict[str, Any]:
        wait = WaitForMysisArguments.parse(arguments)
        swarm = await self._swarm_client.swarm(client)
        is_done = True
        try:
            view = await swarm.wait(wait.mysis, timeout_s=wait.seconds)
        except UsageError:
            is_done = False  # the time is over, or the mysis is gone: then the next line raises
            view = await swarm.mysis(wait.mysis)
        newest = await self._memories.read_last_answer(view.id, READ_CHARS)
        answer: dict[str, Any] = {"is_done": is_done, "mysis": _mysis_row(view), "answer": ""}
        if newest is not None:
            memory_id, text = newest
            answer |= {"answer": start_of(text, ROOM - size(answer)), "answer_id": memory_id}
        return answer


def _mysis_row(view: MysisView) -> dict[str, Any]:
    return {
        "id": view.id,
        "name": view.name,
        "state": view.state.value,
        "status": view.status.value,
        "activity": view.activity.value,
        "tags": shorten_tags(view.tags),
        "turns": view.turns,
        "pending": view.pending,
        "last": head(view.text, _LAST_CHARS),
    }


def _recipient_rows(lines: Sequence[ReceiptLine]) -> list[dict[str, Any]]:
    listed = lines[:_LISTED_RECIPIENTS]
    return within(({"mysis": line.mysis, "status": line.status, "reason": line.reason} for line in listed), ROOM)


def _receipt_row(receipt: Receipt) -> dict[str, Any]:
    rows = _recipient_rows(receipt.lines)
    return {
        "message_id": receipt.message_id,
        "delivered": receipt.delivered,
        "recipients": rows,
        "more": len(receipt.lines) - len(rows),
    }
