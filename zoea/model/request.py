"""Model requests and answers, independent of any provider's format."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from zoea.model.enums import ApprovalAnswer, Finish, Role, Source, ToolShow
from zoea.model.values import Native, Usage

NO_RESPONSE = "(no response)"
"""What is stored of an answer without text and calls."""
EMPTY_ANSWER = "its model returned an empty answer twice"


class RequestCall(Struct, frozen=True, omit_defaults=True):
    """A tool call in an assistant message; `arguments` is JSON text.

    `own_id` is the id that its provider gave it, `is_denied` where a person refused it.
    """

    id: str
    name: str
    arguments: str
    own_id: str = ""
    is_denied: bool = False


class RequestMessage(Struct, frozen=True):
    """One message of a planned request.

    Attributes:
        source: The origin of the message.
        call_id: For role `tool`, the answered `RequestCall`.
        name: For role `tool`, the tool's name.
        memory_id: The rendered memory; None for system prompt, nudge, situation and notes.
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


class ToolSpec(Struct, frozen=True):
    """A tool as a mysis may see it.

    Attributes:
        name: The name the model calls, prefixed with `UPSTREAM__` on a clash.
        origin: The name its upstream uses.
        asks: Whether it needs an approval.
        takes_command: Whether it takes a command line, a script or code.
        is_own: Whether its server is Zoea's own.
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
    takes_command: bool = False
    is_own: bool = False


class Catalogue(Struct, frozen=True):
    """The toolbox of one mysis at one moment. `hash` covers every spec that it offers, in order.

    Attributes:
        others: Tools that it does not offer and that can be called all the same.
        show: How requests show the tools of upstreams.
        pinned: Names of tools that they show whole in any case.
        for_goal: Names of tools that only a mysis with a goal is offered.
        for_others: Names of tools that a mysis is offered only where there is another one.
    """

    tools: tuple[ToolSpec, ...] = ()
    hash: str = ""
    others: tuple[ToolSpec, ...] = ()
    show: ToolShow = ToolShow.ALL
    pinned: frozenset[str] = frozenset()
    for_goal: frozenset[str] = frozenset()
    for_others: frozenset[str] = frozenset()

    def find(self, name: str) -> ToolSpec | None:
        return next((tool for tool in self.tools if tool.name == name), None)

    @property
    def callable(self) -> tuple[ToolSpec, ...]:
        """All tools that a call may name."""
        return (*self.tools, *self.others)


OUTPUT_TOKENS = 4096
"""The most tokens of an answer where nothing names another number."""


class ModelRequest(Struct, frozen=True):
    """One call to a model. `max_output_tokens` is always sent.

    Where it answers a person (`by_person`) it goes before others that wait for the provider.
    `as_schema` asks for calls by a JSON schema for the answer, where the provider has that mode and its settings
    leave the choice. `estimated_tokens` of the prompt; a slow server of this machine has longer to read more.
    After so many of the messages as each of `cache_ends` says, later requests may differ: a place for a cache mark.
    `other_tools` are names of tools that can be called and are not among `tools`.
    With `as_signatures` a prompt that describes the tools has one line for each. `recipients` are the other myses.
    `traits` are the stored ones of the model, each with the sentence that taught it.
    `is_warned` where the model is told that it repeats itself, or that no request follows: an answer that is held to a
    schema is then a text.
    """

    model: str
    messages: tuple[RequestMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int = OUTPUT_TOKENS
    context_window: int | None = None
    temperature: float | None = None
    mysis: str = ""
    options: dict[str, Any] = {}
    by_person: bool = False
    as_schema: bool = False
    is_warned: bool = False
    estimated_tokens: int = 0
    cache_ends: tuple[int, ...] = ()
    other_tools: tuple[str, ...] = ()
    as_signatures: bool = False
    recipients: tuple[str, ...] = ()
    traits: tuple[tuple[str, str], ...] = ()


class AnswerCall(Struct, frozen=True):
    """A call as the model wrote it. `broken` says why its arguments are not a JSON object."""

    name: str
    arguments: str
    provider_call_id: str = ""
    broken: str = ""


class Delta(Struct, frozen=True):
    """A streamed part of an answer."""

    text: str = ""
    reasoning: str = ""
    call: str = ""


class RequestHeld(Struct, frozen=True):
    """The provider's admission gate delays the request; counts for no deadline. It comes again when it changes.

    `until` is µs UTC; `place` in the queue is 1 for the next, 0 without a queue. `loads` where no gate delays it, but
    its server, which loads the model first.
    """

    reason: str
    until: int | None = None
    place: int = 0
    loads: bool = False


class RequestSent(Struct, frozen=True):
    """A request is sent now; from here on a hold does not stop it.

    `first_s` are the seconds that it has until its first token, and between two reports of its reading; None leaves
    that to the provider.
    """

    first_s: float | None = None


class ReadProgress(Struct, frozen=True):
    """The server reads the prompt: tokens read so far, of all."""

    done: int
    total: int

    @property
    def percent(self) -> int:
        return min(100, max(0, self.done * 100 // max(1, self.total)))


class Answer(Struct, frozen=True):
    """The complete answer, with its usage.

    Attributes:
        are_calls_text: Whether the calls were written as text and read from it.
        needs_schema: Whether the next turns should ask for calls by a schema, because these were written as text.
        reading_rate: Tokens of the prompt that the server read in a second; None where it did not say.
        traits: Forms that the model turned out to refuse or demand, each with the sentence of the refusal.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[AnswerCall, ...] = ()
    native: Native | None = None
    usage: Usage = Usage()
    finish: Finish = Finish.STOP
    model: str = ""
    are_calls_text: bool = False
    needs_schema: bool = False
    reading_rate: float | None = None
    traits: tuple[tuple[str, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.text.strip() and not self.calls


class BytesReceived(Struct, frozen=True):
    """A sign of life that is no part of the answer, such as a keep-alive."""


StreamItem = Delta | BytesReceived | ReadProgress | RequestHeld | RequestSent | Answer


SMALL_PARAMETERS = 4_000_000_000
"""Measured with Qwen2.5-Coder: 0.5B and 1.5B make calls under a schema, and hardly any by the template's own means."""


class ModelInfo(Struct, frozen=True):
    """A model as its provider describes it; None means unknown.

    Attributes:
        slots: How many requests the server answers at once.
        cache_minimum: Tokens that a prompt needs before the provider caches its beginning.
        parameters: How many the model has.
        takes_schema: Whether its server holds an answer to a JSON schema.
    """

    name: str
    context_window: int | None = None
    max_output: int | None = None
    tools: bool | None = None
    slots: int | None = None
    cache_minimum: int | None = None
    parameters: float | None = None
    takes_schema: bool = False

    @property
    def is_small(self) -> bool:
        return self.parameters is not None and self.parameters < SMALL_PARAMETERS


class WaitRequest(Struct, frozen=True):
    """A mysis asked to wait, for seconds or until an absolute tick."""

    seconds: float | None = None
    until_tick: int | None = None
    reason: str = ""


class Blob(Struct, frozen=True):
    """Non-text content of a result; `note` replaces it for models without vision."""

    media_type: str
    data: bytes
    note: str = ""


class ToolResult(Struct, frozen=True):
    """The result of a tool call; `is_unknown` marks a call with an unknown outcome."""

    content: str
    is_error: bool = False
    is_unknown: bool = False
    blobs: tuple[Blob, ...] = ()
    wait: WaitRequest | None = None


class GivenAnswer(Struct, frozen=True):
    """An answer of the commander. `arguments` stand in place of the model's, "" for the model's."""

    answer: ApprovalAnswer
    sentence: str = ""
    arguments: str = ""


class SendState:
    """Whether the message of one call was passed to the transport."""

    __slots__ = ("begun",)

    def __init__(self) -> None:
        self.begun = False


class FileCommit(Struct, frozen=True):
    """What a mysis has in its worktree at the end of a turn.

    Attributes:
        tree: The id of its newest git commit; empty where it has no worktree, or git failed.
        is_unchanged: It differs in nothing from the branch that it came from.
    """

    tree: str = ""
    is_unchanged: bool = False


NO_COMMIT = FileCommit()


class CallMeta(Struct, frozen=True):
    """The caller of a tool, for identity, hops and the deadline in seconds.

    The toolbox marks in `sending` that the call left: from then on it may have been carried out. `offered` is the
    tool as the model and the commander saw it. `withheld` are names of tools that the model is not offered although it
    may call them, because they are of no use to it.
    """

    mysis_id: int
    mysis: str
    turn_id: int
    call_id: int
    hop: int = 0
    deadline_s: float = 60.0
    sending: SendState = field(default_factory=SendState)
    offered: ToolSpec | None = None
    withheld: tuple[str, ...] = ()
