"""Zoea's own tools as they are described, to a mysis in its toolbox and to a client of the MCP server. Pure.

One place for names, limits, argument schemas and answer schemas, so that the two
doors cannot drift apart. What differs is the audience: a mysis speaks as itself and
of itself, a client names whom it means. Source: spec memory.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from zoea.model.enums import ASK_TOOL, Activity, MysisState, Role, Source

MAX_ANSWER = 12_000
"""Characters of one answer, as memory.md says."""
ROOM = MAX_ANSWER - 600
"""Of them those for rows or a text; the others are for what stands beside."""
MAX_TEXT = 20_000
MAX_QUERY = 1_000
READ_CHARS = 10_000
WAIT_RANGE = (1, 3_600)
CLIENT_WAIT_RANGE = (1, 300)
LIMIT_RANGE = (1, 100)
CUT_RANGE = (100, READ_CHARS)
LIMIT, CUT, CLIENT_WAIT = 20, 2_000, 30
"""What holds where a limit, a cut (characters) or a client's wait (seconds) is left out."""
COMMANDER = "commander"
SOURCES = tuple(source.value for source in Source if source is not Source.SYSTEM)
ROLES = tuple(role.value for role in Role if role is not Role.SYSTEM)
MATCHES = ("exact", "ranked")
PARTS = ("content", "reasoning", "call")

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OwnTool:
    """One of Zoea's own tools as its user sees it. `output` is the schema of the answer's object."""

    name: str
    title: str
    description: str
    properties: Mapping[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    output: Schema = field(default_factory=dict)
    reads: bool = True

    @property
    def input_schema(self) -> Schema:
        schema: Schema = {"type": "object", "properties": dict(self.properties), "additionalProperties": False}
        if self.required:
            schema["required"] = list(self.required)
        return schema


def text(description: str, *, at_most: int = 0) -> Schema:
    found: Schema = {"type": "string", "minLength": 1, "description": description}
    return {**found, "maxLength": at_most} if at_most else found


def number(description: str, least: int, most: int | None = None, *, kind: str = "integer") -> Schema:
    found: Schema = {"type": kind, "minimum": least, "description": description}
    return {**found, "maximum": most} if most is not None else found


def one_of(description: str, values: Iterable[str]) -> Schema:
    return {"type": "string", "enum": list(values), "description": description}


def record(properties: Mapping[str, Schema], *, optional: Iterable[str] = ()) -> Schema:
    """An object with exactly these fields, all but the optional ones always there."""
    left_out = set(optional)
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in left_out],
        "additionalProperties": False,
    }


def list_of(item: Schema, description: str = "") -> Schema:
    found: Schema = {"type": "array", "items": item}
    return {**found, "description": description} if description else found


_TEXT: Schema = {"type": "string"}
_ID: Schema = {"type": "integer", "minimum": 1}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_WHEN: Schema = {"type": "string", "description": "ISO 8601, UTC."}

QUERY = text("Text that must occur exactly so, upper and lower case matter.")
HOW_MANY = number("How many results at most, 1 to 100; 20 if left out.", *LIMIT_RANGE)
WHAT_TO_SAY = text("What you want to say.", at_most=MAX_TEXT)
TO_ALL = text("What you want to say to all.", at_most=MAX_TEXT)
MEMORY_ID = number("The id of the memory.", 1)
OFFSET = number("From which character on; 0 if left out.", 0)
POSITION = number("With part call: which of its calls, counted from 0; 0 if left out.", 0)
AFTER_ID = number("For the next ones: the next_after_id of the answer before.", 1)
NAMED = text("Only those whose name contains this, in any case.")
_MAX_CHARS = number("Characters of one result at most, 100 to 10000; 2000 if left out.", *CUT_RANGE)
WAITED_FOR = text("What you wait for, in a few words.", at_most=500)


# What a mysis sees.


def mysis_send() -> OwnTool:
    return OwnTool(
        "zoea_send_message",
        "Send a message",
        "Send a message to one other mysis of your swarm. It reads it in its next turn; its answer, if any, comes to "
        "you as a message. Use zoea_list_myses to see the names.",
        {"to": text("The name of the mysis that shall read it."), "text": WHAT_TO_SAY},
        ("to", "text"),
        reads=False,
    )


def mysis_send_commander() -> OwnTool:
    return OwnTool(
        "zoea_send_message",
        "Send a message",
        "Send a message to the commander, the person in charge.",
        {"to": one_of("Always commander.", [COMMANDER]), "text": WHAT_TO_SAY},
        ("text",),
        reads=False,
    )


def mysis_broadcast() -> OwnTool:
    return OwnTool(
        "zoea_broadcast",
        "Broadcast",
        "Send one message to all other myses of your swarm. Use it for what concerns everybody; you may do so only a "
        "few times an hour.",
        {"text": TO_ALL},
        ("text",),
        reads=False,
    )


def mysis_ask() -> OwnTool:
    return OwnTool(
        ASK_TOOL,
        "Ask",
        "Ask the commander, the person in charge, and wait for the answer, 30 minutes at most. Only for what you "
        "cannot decide or find out yourself.",
        {"question": text("What you want to know, so that it can be answered in a sentence.")},
        ("question",),
        reads=False,
    )


def mysis_list() -> OwnTool:
    return OwnTool(
        "zoea_list_myses",
        "List myses",
        "List the myses of your swarm: name, id, state, what they do now.",
        {"name": NAMED, "after_id": AFTER_ID},
    )


def mysis_wait() -> OwnTool:
    return OwnTool(
        "zoea_wait",
        "Wait",
        "End your turn and sleep, for some seconds or until a tick of the world. Use it when nothing useful can be "
        "done now, for instance while travelling. A message wakes you earlier. Give seconds or until_tick, not both.",
        {
            "seconds": number("How long to wait, 1 to 3600 seconds.", *WAIT_RANGE, kind="number"),
            "until_tick": number("The absolute tick at which to go on.", 0),
            "reason": WAITED_FOR,
        },
        ("reason",),
        reads=False,
    )


def mysis_search(name: str, what: str, *, of_memories: bool, everyone: bool) -> OwnTool:
    """`what` says whose texts are searched; `everyone` lets it name whose memories."""
    properties: dict[str, Schema] = {
        "query": QUERY,
        "limit": HOW_MANY,
        "match": one_of("exact if left out; ranked: the words in any case, best first.", MATCHES),
        "since": text("Only from this time on, ISO 8601."),
        "until": text("Only before this time."),
        "before_id": number("For older results: the next_before_id of the answer before.", 1),
        "max_chars": _MAX_CHARS,
    }
    if of_memories:
        properties["role"] = one_of("user: prompts, assistant: answers, tool: results.", ROLES)
        properties["source"] = one_of("Where it came from.", SOURCES)
        whose = "Only of the mysis with this id; all if left out." if everyone else "Leave it out: it is your own id."
        properties["mysis_id"] = number(whose, 1)
    description = (
        f"Search {what}, newest first. Use it for anything older than what you see. Give only query at first: a short "
        "part of what was said, exactly as it was written."
    )
    return OwnTool(name, "Search", description, properties, ("query",))


def mysis_read(*, everyone: bool = False) -> OwnTool:
    whose = "any stored memory of your swarm" if everyone else "one of your stored memories"
    return OwnTool(
        "zoea_read_memory",
        "Read a memory",
        f"Read {whose} in full, by the id that a search or a note about left-out characters shows. Long ones come in "
        "parts: give offset to read on.",
        {
            "id": MEMORY_ID,
            "offset": OFFSET,
            "part": one_of("content (if left out), reasoning, or call: name(arguments) of a tool call.", PARTS),
            "position": POSITION,
        },
        ("id",),
    )


# What a client of the MCP server sees.

_NARROWED: dict[str, Schema] = {
    "limit": HOW_MANY,
    "match": one_of(
        "exact: the text as it is, newest first (the default). ranked: its words in any case, the best first.", MATCHES
    ),
    "since": text("Only from this time on, ISO 8601, such as 2026-01-31T10:30:00Z."),
    "until": text("Only before this time, ISO 8601."),
}
_BEFORE = number("Only older than this id: where the answer before says next_before_id.", 1)
_OF_MEMORIES: dict[str, Schema] = {
    "query": text("Text that must occur exactly so, upper and lower case matter.", at_most=MAX_QUERY),
    "mysis_id": number("Only of the mysis with this id, as zoea_list_myses shows it; all myses if left out.", 1),
    **_NARROWED,
    "role": one_of("Only memories of this role.", ROLES),
    "source": one_of("Only memories from this source.", SOURCES),
    "before_id": _BEFORE,
    "max_chars": _MAX_CHARS,
}
_FOUND: dict[str, Schema] = {
    "id": {**_ID, "description": "For zoea_read_memory, before_id and the like."},
    "mysis_id": _ID,
    "mysis": {**_TEXT, "description": "Whose memory it is."},
    "role": one_of("Who speaks: the prompt, the model, or a tool.", ROLES),
    "source": one_of("Where it came from.", SOURCES),
    "created_at": _WHEN,
    "sender": {**_TEXT, "description": "Who said it, where it is a prompt: a name, or commander."},
    "content": {**_TEXT, "description": "The text, around the match; the whole with zoea_read_memory."},
    "call": {**_TEXT, "description": "The tool call that holds the match, where it is not in the content."},
    "position": {**_COUNT, "description": "Which call that is: for zoea_read_memory with part call."},
    "from_char": {**_COUNT, "description": "Where what holds the match was cut: it begins at this character."},
    "tool": {**_TEXT, "description": "The tool that was called or that answered."},
    "is_cut": {"type": "boolean", "description": "True where what is shown is not the whole."},
}
_SOMETIMES = ("sender", "call", "position", "from_char", "tool")
_SAID: dict[str, Schema] = {
    "id": {**_ID, "description": "For before_id."},
    "sender": {**_TEXT, "description": "A name, or commander."},
    "created_at": _WHEN,
    "content": _TEXT,
    "is_cut": {"type": "boolean"},
}
_RECEIPT = record(
    {
        "message_id": _ID,
        "delivered": {**_COUNT, "description": "How many myses will read it."},
        "recipients": list_of(
            record({"mysis": _TEXT, "status": _TEXT, "reason": _TEXT}), "What became of it for each; at most 50."
        ),
        "more": {**_COUNT, "description": "Recipients that are not listed."},
    }
)
_MYSIS = record(
    {
        "id": _ID,
        "name": _TEXT,
        "state": one_of("idle and running myses take messages.", [state.value for state in MysisState]),
        "activity": one_of("What it does this moment.", [activity.value for activity in Activity]),
        "tags": list_of(_TEXT),
        "turns": _COUNT,
        "pending": {**_COUNT, "description": "Messages it has not read yet."},
        "last": {**_TEXT, "description": "What it said or did last, cut."},
    }
)


def _hits(item: Mapping[str, Schema], *, optional: Iterable[str] = ()) -> Schema:
    return record(
        {
            "results": list_of(record(item, optional=optional)),
            "next_before_id": {**_ID, "description": "There is more: ask again with this before_id."},
            "hint": {**_TEXT, "description": "What to do where nothing or too much was found."},
        },
        optional=("next_before_id", "hint"),
    )


CLIENT_TOOLS: tuple[OwnTool, ...] = (
    OwnTool(
        "zoea_search_messages",
        "Search messages",
        "Search everything that was said to the myses of a Zoea swarm, by them, and by their tools, newest first. "
        "Broadcasts are found under each mysis that read them.",
        _OF_MEMORIES,
        ("query",),
        _hits(_FOUND, optional=_SOMETIMES),
    ),
    OwnTool(
        "zoea_search_broadcasts",
        "Search broadcasts",
        "Search the messages that were sent to the whole swarm, newest first, each once.",
        {
            "query": _OF_MEMORIES["query"],
            **_NARROWED,
            "before_id": _BEFORE,
            "max_chars": _MAX_CHARS,
        },
        ("query",),
        _hits(_SAID),
    ),
    OwnTool(
        "zoea_search_reasoning",
        "Search reasoning",
        "Search what the myses' models thought before they answered, newest first.",
        _OF_MEMORIES,
        ("query",),
        _hits({**_FOUND, "reasoning": {**_TEXT, "description": "The thought around the match."}}, optional=_SOMETIMES),
    ),
    OwnTool(
        "zoea_read_memory",
        "Read a memory",
        "Read one stored memory in full, by the id that a search shows. Long ones come in parts: give offset to read "
        "on from next_offset.",
        {
            "id": MEMORY_ID,
            "offset": OFFSET,
            "max_chars": number("Characters of this part at most, 100 to 10000 (the default).", *CUT_RANGE),
            "part": one_of("content (the default), reasoning, or call: name(arguments) of a tool call.", PARTS),
            "position": POSITION,
        },
        ("id",),
        record(
            {
                **{name: _FOUND[name] for name in ("id", "mysis_id", "mysis", "role", "source", "created_at")},
                "part": one_of("What is shown.", PARTS),
                "offset": _COUNT,
                "total_chars": _COUNT,
                "text": _TEXT,
                "calls": list_of(
                    record({"position": _COUNT, "name": _TEXT, "arguments": _TEXT, "total_chars": _COUNT}),
                    "The tools this answer called, arguments cut: the whole with part call and the position.",
                ),
                "more_calls": {**_COUNT, "description": "Calls that are not listed, with the positions that follow."},
                "position": {**_COUNT, "description": "With part call: which call it is."},
                "next_offset": {**_COUNT, "description": "There is more: ask again with this offset."},
            },
            optional=("more_calls", "position", "next_offset"),
        ),
    ),
    OwnTool(
        "zoea_list_myses",
        "List myses",
        "List the myses of the swarm: name, id, state, what they do now, what they said last.",
        {"name": NAMED, "after_id": AFTER_ID},
        output=record(
            {
                "is_running": {"type": "boolean", "description": "False: nobody runs the swarm, this is what is kept."},
                "is_held": {"type": "boolean", "description": "True: the commander lets nothing new begin."},
                "myses": list_of(_MYSIS),
                "more": {**_COUNT, "description": "Myses that come after these."},
                "next_after_id": {**_ID, "description": "There are more: ask again with this after_id."},
            },
            optional=("next_after_id",),
        ),
    ),
    OwnTool(
        "zoea_send_message",
        "Send a message",
        "Send a message to one mysis. It reads it in its next turn. To see what it answers, call zoea_wait.",
        {
            "to": text("The name of the mysis that shall read it, as zoea_list_myses shows it."),
            "text": WHAT_TO_SAY,
        },
        ("to", "text"),
        _RECEIPT,
        reads=False,
    ),
    OwnTool(
        "zoea_broadcast",
        "Broadcast",
        "Send one message to all myses of the swarm that are idle or running.",
        {"text": TO_ALL},
        ("text",),
        _RECEIPT,
        reads=False,
    ),
    OwnTool(
        "zoea_wait",
        "Wait for a mysis",
        "Wait until a mysis has read everything and finished its turn, and get its last answer. Comes back early with "
        "is_done false when the seconds are over: then call it again.",
        {
            "mysis": text("The name of the mysis to wait for."),
            "seconds": number("How long at most, 1 to 300; 30 if left out.", *CLIENT_WAIT_RANGE, kind="number"),
        },
        ("mysis",),
        record(
            {
                "is_done": {"type": "boolean"},
                "mysis": _MYSIS,
                "answer": {**_TEXT, "description": "Its last answer, whole up to 10000 characters."},
                "answer_id": {**_ID, "description": "The memory that holds the answer."},
            },
            optional=("answer_id",),
        ),
    ),
)

COMMANDS = frozenset(tool.name for tool in CLIENT_TOOLS if not tool.reads)
"""The client's tools that change something."""
