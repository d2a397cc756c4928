"""Definitions of Zoea's own tools, for myses and for MCP clients: names, descriptions, schemas."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from pydantic import BaseModel

from zoea.model.enums import ASK_TOOL, DONE_TOOL, SEND_TOOL
from zoea.model.request import ToolSpec
from zoea.tools.builtin import answers
from zoea.tools.builtin.arguments import (
    Arguments,
    AskArguments,
    BroadcastArguments,
    ClientReadArguments,
    ClientSendArguments,
    ContextAnnotateArguments,
    ContextAskArguments,
    ContextCheckpointArguments,
    ContextForkArguments,
    ContextLogArguments,
    ContextMaterializeArguments,
    ContextResolveArguments,
    ContextShowArguments,
    DoneArguments,
    ListArguments,
    MemorySearchArguments,
    NoArguments,
    OwnMemorySearchArguments,
    PublishArguments,
    ReadArguments,
    ReadTopicArguments,
    RecallArguments,
    RememberArguments,
    SearchArguments,
    SendArguments,
    SendToCommanderArguments,
    SlimAskArguments,
    SlimBroadcastArguments,
    SlimDoneArguments,
    SlimReadArguments,
    SlimSendArguments,
    SlimWaitArguments,
    WaitArguments,
    WaitForMysisArguments,
    schema_of,
)
from zoea.tools.catalogue import digest
from zoea.tools.policy import ContextUse, OwnTools, SearchScope, Send, ToolPolicy


class BuiltinTool(Struct, frozen=True):
    """One of Zoea's own tools. `answer` is the model of a client's answer; `reads` means it changes nothing."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    answer: type[BaseModel] | None = None
    reads: bool = True

    @property
    def input_schema(self) -> dict[str, Any]:
        schema = schema_of(self.arguments)
        return {"type": "object", **schema}

    @property
    def output_schema(self) -> dict[str, Any]:
        assert self.answer is not None, "only the tools of clients have one"
        return schema_of(self.answer)

    def to_spec(self) -> ToolSpec:
        """Make the catalogue entry for a mysis."""
        schema = self.input_schema
        return ToolSpec(
            name=self.name,
            description=self.description,
            input_schema=schema,
            origin=self.name,
            read_only=self.reads,
            idempotent=self.reads,
            asks=self.name == ASK_TOOL,
            schema_hash=digest([self.name, self.description, schema]),
        )


# The tools of commits, of clients and of myses alike.

_CONTEXT_TOOLS = (
    BuiltinTool(
        "zoea_context_log",
        "List commits",
        "List what a mysis committed of what it knows, newest first.",
        ContextLogArguments,
        answers.ContextLogAnswer,
    ),
    BuiltinTool(
        "zoea_context_materialize",
        "Read a context",
        "Read the conversation that a mysis had up to a commit, its newest messages first to fit.",
        ContextMaterializeArguments,
        answers.ContextAnswer,
    ),
    BuiltinTool(
        "zoea_context_show",
        "Show a commit",
        "Show where a commit comes from, its names, tags and summary, and the commits before and after it.",
        ContextShowArguments,
        answers.ContextShowAnswer,
    ),
    BuiltinTool(
        "zoea_context_resolve",
        "Find a commit by time",
        "Find the newest commit of a mysis at a time.",
        ContextResolveArguments,
        answers.ContextShowAnswer,
    ),
    BuiltinTool(
        "zoea_context_checkpoint",
        "Commit now",
        "Commit what a mysis knows now; in a turn, with its next answer or result.",
        ContextCheckpointArguments,
        answers.ContextCheckpointAnswer,
        reads=False,
    ),
    BuiltinTool(
        "zoea_context_annotate",
        "Annotate a commit",
        "Change the summary of a commit, or add tags. The messages of a commit never change.",
        ContextAnnotateArguments,
        answers.ContextShowAnswer,
        reads=False,
    ),
)
_CONTEXT_COMMANDS = (
    BuiltinTool(
        "zoea_context_ask",
        "Ask what a mysis knew",
        "Ask what a mysis knew at a commit, and get the answer. The mysis itself learns nothing of it. With the thread "
        "of an earlier answer the discussion goes on. Each question costs a request with the whole conversation.",
        ContextAskArguments,
        answers.ContextAskAnswer,
        reads=False,
    ),
    BuiltinTool(
        "zoea_context_fork",
        "Fork a mysis",
        "Make a mysis that knows a conversation up to a commit. Its first request costs the whole conversation.",
        ContextForkArguments,
        answers.ContextForkAnswer,
        reads=False,
    ),
)

# The tools of a mysis.

_SEND = BuiltinTool(
    SEND_TOOL,
    "Send a message",
    "Send a message to one other mysis of your swarm. It reads it in its next turn; its answer, if any, comes to "
    "you as a message. Use zoea_list_myses to see the names.",
    SendArguments,
    reads=False,
)
_SEND_TO_COMMANDER = BuiltinTool(
    SEND_TOOL,
    "Send a message",
    "Send a message to the commander, the person in charge.",
    SendToCommanderArguments,
    reads=False,
)
_BROADCAST = BuiltinTool(
    "zoea_broadcast",
    "Broadcast",
    "Send one message to all other myses of your swarm. Use it for what concerns everybody; you may do so only a "
    "few times an hour.",
    BroadcastArguments,
    reads=False,
)
_ASK = BuiltinTool(
    ASK_TOOL,
    "Ask",
    "Ask the commander, the person in charge, and wait for the answer, 30 minutes at most. Only for what you "
    "cannot decide or find out yourself.",
    AskArguments,
    reads=False,
)
_LIST = BuiltinTool(
    "zoea_list_myses", "List myses", "List the myses of your swarm: name, id, state, what they do now.", ListArguments
)
_WAIT = BuiltinTool(
    "zoea_wait",
    "Wait",
    "End your turn and sleep, for some seconds or until a tick of the world. Use it when nothing useful can be "
    "done now, for instance while travelling. A message wakes you earlier. Give seconds or until_tick, not both.",
    WaitArguments,
    reads=False,
)
_DONE = BuiltinTool(
    DONE_TOOL,
    "Report the end",
    "Report that your task is done, or that you can do no more for it, and end your turn. You then rest until the "
    "commander has looked at it and sends you on.",
    DoneArguments,
    reads=False,
)
_PUBLISH = BuiltinTool(
    "zoea_publish",
    "Publish",
    "Publish a message on a topic of your swarm's ledger: a text, data, or both. It is stored, and each subscriber "
    "gets it as the prompt of a turn.",
    PublishArguments,
    reads=False,
)
_READ_TOPIC = BuiltinTool(
    "zoea_read_topic",
    "Read a topic",
    "Read the newest messages of a topic of your swarm's ledger, oldest first. Without a topic it lists the topics.",
    ReadTopicArguments,
)
_SEARCHES = {
    "zoea_search_messages": (
        "your stored messages, tool calls, tool results and the broadcasts you received",
        "what was said to all myses of your swarm, by them, and by their tools",
    ),
    "zoea_search_broadcasts": ("the broadcasts you sent or received", "all broadcasts of your swarm"),
    "zoea_search_reasoning": ("your own stored reasoning", "the stored reasoning of all myses of your swarm"),
}
"""What each searches: for a mysis that may read its own memories, and for one that may read everyone's."""


RECALL_TOOL = "zoea_recall"
REMEMBER_TOOL = "zoea_remember"

# The same tools in few words. Small models call them better, and they cost a third of the tokens.

_SLIM_SEND = BuiltinTool(SEND_TOOL, "Send a message", "Send a message to one mysis.", SlimSendArguments, reads=False)
_SLIM_SEND_TO_COMMANDER = BuiltinTool(
    SEND_TOOL, "Send a message", "Send a message to the commander.", SendToCommanderArguments, reads=False
)
_SLIM_BROADCAST = BuiltinTool(
    "zoea_broadcast", "Broadcast", "Send a message to all other myses.", SlimBroadcastArguments, reads=False
)
_SLIM_ASK = BuiltinTool(
    ASK_TOOL,
    "Ask",
    "Ask the commander, a person, what you cannot find out, and wait for the answer.",
    SlimAskArguments,
    reads=False,
)
_SLIM_LIST = BuiltinTool("zoea_list_myses", "List myses", "List the myses: name, state, activity.", NoArguments)
_SLIM_WAIT = BuiltinTool(
    "zoea_wait", "Wait", "End your turn and sleep. A message wakes you.", SlimWaitArguments, reads=False
)
_SLIM_DONE = BuiltinTool(
    DONE_TOOL, "Report the end", "Report that your task is done, and end your turn.", SlimDoneArguments, reads=False
)


_REMEMBER = BuiltinTool(
    REMEMBER_TOOL,
    "Remember",
    "Keep a message word for word in all your later requests, such as a rule that you must never lose. Without an id "
    "it is the newest message that you were told; a search shows the ids of others. Keep few.",
    RememberArguments,
    reads=False,
)


def _slim_tools(policy: ToolPolicy) -> tuple[BuiltinTool, ...]:
    """List the tools in few words, with one tool for all searches."""
    tools = {
        Send.NONE: (),
        Send.COMMANDER: (_SLIM_SEND_TO_COMMANDER, _SLIM_ASK),
        Send.SWARM: (_SLIM_SEND, _SLIM_BROADCAST, _SLIM_ASK),
    }[policy.send]
    past = "what the swarm said and did" if policy.search is SearchScope.SWARM else "what you were told, said and did"
    recall = BuiltinTool(
        RECALL_TOOL, "Recall", f"Find {past} earlier: what you no longer see. Best matches first.", RecallArguments
    )
    read = BuiltinTool("zoea_read_memory", "Read a memory", "Read one in full, by its id.", SlimReadArguments)
    return (*tools, _SLIM_LIST, _SLIM_WAIT, _SLIM_DONE, recall, read)


def mysis_tools(policy: ToolPolicy) -> tuple[BuiltinTool, ...]:
    """List Zoea's own tools for a template's policy, before allow and deny."""
    tools = _slim_tools(policy) if policy.own is OwnTools.SLIM else _full_tools(policy)
    if policy.remembers:
        tools = (*tools, _REMEMBER)
    if policy.contexts is not ContextUse.NONE:
        tools = (*tools, *_CONTEXT_TOOLS)
    if policy.contexts is ContextUse.COMMAND:
        tools = (*tools, *_CONTEXT_COMMANDS)
    if not policy.topics:
        return tools
    return (*tools, *((_PUBLISH,) if policy.send is Send.SWARM else ()), _READ_TOPIC)


def _full_tools(policy: ToolPolicy) -> tuple[BuiltinTool, ...]:
    """List the tools with all their arguments."""
    reads_swarm = policy.search is SearchScope.SWARM
    tools = {Send.NONE: (), Send.COMMANDER: (_SEND_TO_COMMANDER, _ASK), Send.SWARM: (_SEND, _BROADCAST, _ASK)}[
        policy.send
    ]
    searches = (_search(name, texts[reads_swarm], reads_swarm) for name, texts in _SEARCHES.items())
    return (*tools, _LIST, _WAIT, _DONE, *searches, _read(reads_swarm))


def _search(name: str, texts: str, reads_swarm: bool) -> BuiltinTool:
    arguments: type[SearchArguments] = MemorySearchArguments if reads_swarm else OwnMemorySearchArguments
    return BuiltinTool(
        name,
        "Search",
        f"Search {texts}, newest first. Use it for anything older than what you see. Give only query at first: a short "
        "part of what was said, as it was written.",
        SearchArguments if name == "zoea_search_broadcasts" else arguments,
    )


def _read(reads_swarm: bool) -> BuiltinTool:
    memory = "any stored memory of your swarm" if reads_swarm else "one of your stored memories"
    return BuiltinTool(
        "zoea_read_memory",
        "Read a memory",
        f"Read {memory} in full, by the id that a search or a note about left-out characters shows. Long ones come in "
        "parts: give offset to read on.",
        ReadArguments,
    )


CLIENT_TOOLS: tuple[BuiltinTool, ...] = (
    BuiltinTool(
        "zoea_search_messages",
        "Search messages",
        "Search everything that was said to the myses of a Zoea swarm, by them, and by their tools, newest first. "
        "Broadcasts are found under each mysis that read them.",
        MemorySearchArguments,
        answers.SearchAnswer,
    ),
    BuiltinTool(
        "zoea_search_broadcasts",
        "Search broadcasts",
        "Search the messages that were sent to the whole swarm, newest first, each once.",
        SearchArguments,
        answers.BroadcastSearchAnswer,
    ),
    BuiltinTool(
        "zoea_search_reasoning",
        "Search reasoning",
        "Search what the myses' models thought before they answered, newest first.",
        MemorySearchArguments,
        answers.ReasoningSearchAnswer,
    ),
    BuiltinTool(
        "zoea_read_memory",
        "Read a memory",
        "Read one stored memory in full, by the id that a search shows. Long ones come in parts: give offset to read "
        "on from next_offset.",
        ClientReadArguments,
        answers.ReadAnswer,
    ),
    BuiltinTool(
        "zoea_list_myses",
        "List myses",
        "List the myses of the swarm: name, id, state, what they do now, what they said last.",
        ListArguments,
        answers.ListAnswer,
    ),
    BuiltinTool(
        SEND_TOOL,
        "Send a message",
        "Send a message to one mysis. It reads it in its next turn. To see what it answers, call zoea_wait.",
        ClientSendArguments,
        answers.ReceiptAnswer,
        reads=False,
    ),
    BuiltinTool(
        "zoea_broadcast",
        "Broadcast",
        "Send one message to all myses of the swarm that are idle or running.",
        BroadcastArguments,
        answers.ReceiptAnswer,
        reads=False,
    ),
    BuiltinTool(
        "zoea_publish",
        "Publish",
        "Publish a message on a topic of the swarm's ledger: a text, data, or both. Each mysis that subscribes to the "
        "topic gets it as the prompt of a turn.",
        PublishArguments,
        answers.PublishAnswer,
        reads=False,
    ),
    BuiltinTool(
        "zoea_read_topic",
        "Read a topic",
        "Read the newest messages of a topic of the swarm's ledger, oldest first. Without a topic it lists the topics.",
        ReadTopicArguments,
        answers.TopicAnswer,
    ),
    *_CONTEXT_TOOLS,
    *_CONTEXT_COMMANDS,
    BuiltinTool(
        "zoea_wait",
        "Wait for a mysis",
        "Wait until a mysis has read everything and finished its turn, and get its last answer. Comes back early with "
        "is_done false when the seconds are over: then call it again.",
        WaitForMysisArguments,
        answers.WaitAnswer,
    ),
)

CONTEXT_TOOL_NAMES = frozenset(tool.name for tool in (*_CONTEXT_TOOLS, *_CONTEXT_COMMANDS))
COMMANDS = frozenset(tool.name for tool in CLIENT_TOOLS if not tool.reads)
"""The client's tools that change something."""
