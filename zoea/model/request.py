"""What goes to a model and what comes back, independent of any provider's wire form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from zoea.model.enums import Finish, Role, Source
from zoea.model.values import Native, Usage


@dataclass(frozen=True, slots=True)
class RequestCall:
    """A tool call inside an assistant message of a request. `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class RequestMessage:
    """One message of a request, after planning.

    `memory_id` names the memory it renders (None for what exists nowhere else:
    system prompt, nudge, situation, notes); `source` says where it came from.
    For role `tool`, `call_id` names the answered `RequestCall` and `name` its tool.
    """

    role: Role
    content: str
    source: Source = Source.SYSTEM
    calls: tuple[RequestCall, ...] = ()
    call_id: str = ""
    name: str = ""
    is_error: bool = False
    reasoning: str = ""
    native: Native | None = None
    memory_id: int | None = None


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a mysis may see it.

    `name` is what the model calls (prefixed `UPSTREAM__` on a clash), `origin`
    the name its upstream knows; `asks` marks tools that need an approval.
    """

    name: str
    description: str
    input_schema: dict[str, Any]
    upstream: str = ""
    origin: str = ""
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    asks: bool = False
    schema_hash: str = ""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The toolbox of one mysis at one moment. `hash` is over every spec, in order."""

    tools: tuple[ToolSpec, ...] = ()
    hash: str = ""

    def find(self, name: str) -> ToolSpec | None:
        return next((tool for tool in self.tools if tool.name == name), None)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call to a model. `max_output_tokens` is always sent."""

    model: str
    messages: tuple[RequestMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int = 4096
    context_window: int | None = None
    temperature: float | None = None
    mysis: str = ""
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnswerCall:
    """A call as the model wrote it. `broken` says why its arguments are no JSON object."""

    name: str
    arguments: str
    provider_call_id: str = ""
    broken: str = ""


@dataclass(frozen=True, slots=True)
class Delta:
    """A streamed piece: progress, not yet an answer."""

    text: str = ""
    reasoning: str = ""
    call: str = ""


@dataclass(frozen=True, slots=True)
class RequestHeld:
    """The provider's gate makes this request wait; counts for no deadline. `until` is µs UTC."""

    reason: str
    until: int | None = None


@dataclass(frozen=True, slots=True)
class RequestSent:
    """A request that was `RequestHeld` goes out now: from here on it is in flight, and a hold lets it go on."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The end of a stream: everything the model said, and what it cost."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[AnswerCall, ...] = ()
    native: Native | None = None
    usage: Usage = field(default_factory=Usage)
    finish: Finish = Finish.STOP
    model: str = ""

    @property
    def is_empty(self) -> bool:
        return not self.text.strip() and not self.calls


StreamItem = Delta | RequestHeld | RequestSent | Answer


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a provider says of one of its models; None where it does not say."""

    name: str
    context_window: int | None = None
    max_output: int | None = None
    tools: bool | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """A mysis asked to wait: for seconds, or until an absolute tick, whichever is given."""

    seconds: float | None = None
    until_tick: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Blob:
    """Non-text content of a result; `note` is what a model that cannot see reads."""

    media_type: str
    data: bytes
    note: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call gave. `is_unknown` marks a call whose fate nobody can tell."""

    content: str
    is_error: bool = False
    is_unknown: bool = False
    blobs: tuple[Blob, ...] = ()
    wait: Wait | None = None


@dataclass(frozen=True, slots=True)
class CallMeta:
    """Who calls a tool, for identity, hops and the deadline in seconds."""

    mysis_id: int
    mysis: str
    turn_id: int
    call_id: int
    hop: int = 0
    deadline_s: float = 60.0
