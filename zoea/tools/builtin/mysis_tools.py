"""Zoea's own tools for a mysis: write to others, wait, ask, search, read memories."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from msgspec.structs import replace

from zoea.model.enums import ASK_TOOL, DONE_TOOL, SEND_TOOL
from zoea.model.errors import UsageError, ZoeaError
from zoea.model.request import CallMeta, ToolResult, ToolSpec, WaitRequest
from zoea.model.topics import PublishReceipt, TopicMessage, TopicSummary
from zoea.model.values import MysisView, Receipt
from zoea.store.search import SearchColumn
from zoea.tools.builtin.answer_size import ROOM, shorten_tags, within
from zoea.tools.builtin.arguments import (
    COMMANDER,
    READ_CHARS,
    AskArguments,
    BroadcastArguments,
    DoneArguments,
    ListArguments,
    MemorySearchArguments,
    PublishArguments,
    ReadArguments,
    ReadTopicArguments,
    RecallArguments,
    RememberArguments,
    SearchArguments,
    SendArguments,
    SendToCommanderArguments,
    SlimSendArguments,
    SlimWaitArguments,
    WaitArguments,
)
from zoea.tools.builtin.definitions import CONTEXT_TOOL_NAMES, RECALL_TOOL, REMEMBER_TOOL, mysis_tools
from zoea.tools.builtin.memory_tools import MemorySource, MemoryTools, MysisRows
from zoea.tools.builtin.topic_rows import read_topic_rows
from zoea.tools.policy import ContextUse, OwnTools, SearchScope, Send, ToolPolicy
from zoea.tools.results import error_result

_NAMED_RECIPIENTS = 5
_REPEATED_CHARS = 200
_LISTED_RECIPIENTS = 20
_RECALLED = 10
"""Memories that one recall shows."""

Handler = Callable[[Mapping[str, Any], CallMeta, ToolPolicy], Awaitable[ToolResult]]


class BuiltinBackend(Protocol):
    """The swarm as Zoea's own tools use it for the mysis that calls them.

    `mysis_id` is always the caller; a tool never reads it from its arguments.
    """

    @property
    def memories(self) -> MemorySource:
        """The stored memories."""
        ...

    async def send(self, mysis_id: int, hop: int, to: str, text: str) -> Receipt:
        """Send a message. Raises SwarmError (missing, state, rate) and UsageError (empty text)."""
        ...

    async def broadcast(self, mysis_id: int, hop: int, text: str) -> Receipt:
        """Send a message to all other myses. Raises as `send`."""
        ...

    async def publish(
        self, meta: CallMeta, topic: str, text: str, data: Mapping[str, Any] | None, receiver: str
    ) -> PublishReceipt:
        """Publish on a topic. Raises SwarmError (missing receiver, rate) and UsageError."""
        ...

    async def read_topic(self, topic: str, limit: int, before: int | None) -> tuple[TopicMessage, ...]:
        """Read the newest messages of a topic before an id, oldest first."""
        ...

    async def read_topics(self) -> tuple[TopicSummary, ...]:
        """Read the topics, the one with the newest message first."""
        ...

    async def read_answer(self, mysis_id: int, call_id: int) -> str:
        """Read what the commander answered to the question of this call. Empty where there is no answer."""
        ...

    async def preserve(self, meta: CallMeta, memory_id: int | None, on: bool) -> int:
        """Keep a memory of the mysis, the newest prompt of its turn for None. Return its id. Raises UsageError."""
        ...

    def list_myses(self) -> tuple[MysisView, ...]:
        """List all myses of the swarm."""
        ...


class CommitBackend(Protocol):
    """The commits of the swarm as the tools of commits use them."""

    async def call(self, name: str, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> dict[str, Any]:
        """Carry out a tool of commits. Raises ZoeaError, also for commits that the mysis does not reach."""
        ...


class MysisTools:
    """Carries out Zoea's own tools for the myses of a swarm. Those of commits where `contexts` is given."""

    def __init__(self, backend: BuiltinBackend, contexts: CommitBackend | None = None) -> None:
        self._backend = backend
        self._contexts = contexts
        self._handlers: dict[str, Handler] = {
            SEND_TOOL: self._send,
            "zoea_broadcast": self._broadcast,
            "zoea_list_myses": self._list,
            "zoea_wait": self._wait,
            ASK_TOOL: self._ask,
            DONE_TOOL: self._done,
            "zoea_publish": self._publish,
            "zoea_read_topic": self._read_topic,
            "zoea_search_messages": self._search_messages,
            "zoea_search_broadcasts": self._search_broadcasts,
            "zoea_search_reasoning": self._search_reasoning,
            "zoea_read_memory": self._read,
            RECALL_TOOL: self._recall,
            REMEMBER_TOOL: self._remember,
        }

    def specs(self, policy: ToolPolicy) -> tuple[ToolSpec, ...]:
        """List the tools for a template's policy, before allow and deny."""
        if self._contexts is None:
            policy = replace(policy, contexts=ContextUse.NONE)
        return tuple(tool.to_spec() for tool in mysis_tools(policy))

    async def call(self, name: str, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        """Carry out one call. Errors of the swarm and of the arguments become error results that say what to do."""
        try:
            if self._contexts is not None and name in CONTEXT_TOOL_NAMES:
                return _result(await self._contexts.call(name, arguments, meta, policy))
            return await self._handlers[name](arguments, meta, policy)
        except ZoeaError as error:
            return error_result(error.text)

    async def _send(self, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        if policy.send is Send.SWARM:
            name, said = _read_send(arguments, policy)
            if name.casefold() == meta.mysis.casefold():
                raise UsageError(f"not sent: {name} is your own name", hint=self._name_others(said, meta, policy))
            return _receipt(await self._backend.send(meta.mysis_id, meta.hop, name, said))
        text = SendToCommanderArguments.parse(arguments).text
        return _receipt(await self._backend.send(meta.mysis_id, meta.hop, COMMANDER, text))

    def _name_others(self, said: str, meta: CallMeta, policy: ToolPolicy) -> str:
        """Return the arguments of the right call: a small model takes other words for the text to send."""
        others = [view.name for view in self._backend.list_myses() if view.id != meta.mysis_id]
        if not others:
            return "There is no other mysis. Give your answer as text"
        is_few = 0 < len(others) <= _NAMED_RECIPIENTS
        who = " or ".join(f'"{name}"' for name in others) if is_few else "the name of another one"
        text = json.dumps(said, ensure_ascii=False) if len(said) <= _REPEATED_CHARS else "the same text"
        return f"Call it again with {'mysis' if policy.own is OwnTools.SLIM else 'to'} {who} and text {text}"

    async def _broadcast(self, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        text = BroadcastArguments.parse(arguments).text
        return _receipt(await self._backend.broadcast(meta.mysis_id, meta.hop, text))

    async def _list(self, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        myses = ListArguments.parse(arguments).select(self._backend.list_myses())
        rows = within(map(_mysis_row, myses), ROOM)
        answer: dict[str, Any] = {"you": meta.mysis, "myses": rows}
        if left := len(myses) - len(rows):
            answer |= {"next_after_id": rows[-1]["id"], "hint": f"{left} more, use after_id {rows[-1]['id']}"}
        return _result(answer)

    async def _wait(self, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        wait = (SlimWaitArguments if policy.own is OwnTools.SLIM else WaitArguments).parse(arguments)
        limit = f"for {wait.seconds:g} seconds" if wait.seconds is not None else f"until tick {wait.until_tick}"
        return ToolResult(
            content=f"You wait {limit}. Your turn ends now; a message wakes you earlier.",
            wait=WaitRequest(seconds=wait.seconds, until_tick=wait.until_tick, reason=wait.reason),
        )

    async def _ask(self, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        """Return the commander's answer, for which the call waited as for an approval."""
        AskArguments.parse(arguments)
        answer = await self._backend.read_answer(meta.mysis_id, meta.call_id)
        if not answer:
            raise UsageError("the commander gave no answer")
        return ToolResult(content=f"The commander answers: {answer}")

    async def _done(self, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        DoneArguments.parse(arguments)
        return ToolResult(content="You are done. Your turn ends now; the commander reads your summary.")

    async def _publish(self, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        parsed = PublishArguments.parse(arguments)
        receipt = await self._backend.publish(meta, parsed.topic, parsed.text, parsed.data, parsed.receiver)
        readers = ", ".join(line.mysis for line in receipt.lines[:_LISTED_RECIPIENTS] if line.status != "skipped")
        answer = f"Published as message {receipt.id} on {receipt.topic}."
        unread = next((f"{line.mysis} is {line.reason}" for line in receipt.lines if line.status == "skipped"), "")
        reads = (
            f"Delivered to {readers}" if readers else f"Nobody reads it now: {unread or 'it has no other subscriber'}"
        )
        return ToolResult(content=f"{answer} {reads}. Do not publish it again.")

    async def _read_topic(self, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        return _result(
            await read_topic_rows(
                ReadTopicArguments.parse(arguments), self._backend.read_topics, self._backend.read_topic
            )
        )

    async def _search_messages(self, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        search = MemorySearchArguments.parse(arguments)
        tools = self._memory_tools(meta, policy, search)
        return _result(await tools.search(SearchColumn.CONTENT, search, asking_call=meta.call_id))

    async def _search_reasoning(self, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        search = MemorySearchArguments.parse(arguments)
        tools = self._memory_tools(meta, policy, search)
        return _result(await tools.search(SearchColumn.REASONING, search, asking_call=meta.call_id))

    async def _search_broadcasts(self, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        return _result(await self._memory_tools(meta, policy).search_broadcasts(SearchArguments.parse(arguments)))

    async def _read(self, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        return _result(await self._memory_tools(meta, policy).read(ReadArguments.parse(arguments), READ_CHARS))

    async def _remember(self, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        parsed = RememberArguments.parse(arguments)
        memory_id = await self._backend.preserve(meta, parsed.id, parsed.keep)
        return ToolResult(content=f"Message {memory_id} is kept word for word{'' if parsed.keep else ' no longer'}.")

    async def _recall(self, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> ToolResult:
        """Search by words, best matches first."""
        recall = RecallArguments.parse(arguments)
        common: dict[str, Any] = {"query": recall.query, "match": "ranked", "limit": _RECALLED, "max_chars": 500}
        if recall.where == "broadcasts":
            return _result(await self._memory_tools(meta, policy).search_broadcasts(SearchArguments.parse(common)))
        column = SearchColumn.REASONING if recall.where == "reasoning" else SearchColumn.CONTENT
        search = MemorySearchArguments.parse(common | ({"before_id": recall.before_id} if recall.before_id else {}))
        tools = self._memory_tools(meta, policy, search)
        return _result(await tools.search(column, search, asking_call=meta.call_id))

    def _memory_tools(
        self, meta: CallMeta, policy: ToolPolicy, search: MemorySearchArguments | None = None
    ) -> MemoryTools:
        owner = None if policy.search is SearchScope.SWARM else meta.mysis_id
        names = owner is None and (search is None or search.mysis_id is None)
        return MemoryTools(self._backend.memories, MysisRows(with_names=names), owner)


def _result(answer: dict[str, Any]) -> ToolResult:
    return ToolResult(content=json.dumps(answer, ensure_ascii=False))


def _read_send(arguments: Mapping[str, Any], policy: ToolPolicy) -> tuple[str, str]:
    """Return who a message goes to, and its text. Raises UsageError."""
    if policy.own is OwnTools.SLIM:
        short = SlimSendArguments.parse(arguments)
        arguments = {"to": short.mysis, "text": short.text}
    message = SendArguments.parse(arguments)
    return message.to, message.text


def _receipt(receipt: Receipt) -> ToolResult:
    """Say who got a message, and not to send it again, as small models do."""
    if len(receipt.lines) == 1 and receipt.delivered:
        name = receipt.lines[0].mysis
        answers = "The commander reads it" if name == COMMANDER else "It answers, if at all, in a later turn"
        return ToolResult(content=f"Delivered to {name}. {answers}. Do not send it again.")
    lines = [f"{line.mysis}: {line.status}" + (f" ({line.reason})" if line.reason else "") for line in receipt.lines]
    more = len(lines) - _LISTED_RECIPIENTS
    shown = lines[:_LISTED_RECIPIENTS] + ([f"and {more} more"] if more > 0 else [])
    return ToolResult(
        content="\n".join([f"Delivered to {receipt.delivered}. Do not send it again.", *shown]),
        is_error=receipt.delivered == 0,
    )


def _mysis_row(view: MysisView) -> dict[str, Any]:
    row: dict[str, Any] = {"id": view.id, "name": view.name, "state": view.state.value, "status": view.status.value}
    row["activity"] = view.activity.value
    return {**row, "tags": shorten_tags(view.tags)} if view.tags else row
