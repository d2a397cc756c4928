"""The values that every part speaks: memories, calls, myses, deliveries, usage.

Frozen dataclasses, no behaviour beyond what follows from their own fields. Times
are integer microseconds since the epoch, UTC; durations in settings are seconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from zoea.model.enums import (
    Activity,
    CallState,
    DeliveryMode,
    DeliveryState,
    MessageKind,
    MysisState,
    Role,
    SenderKind,
    Source,
)
from zoea.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that a model asked for.

    `id` is the row id; requests carry `wire_id`. `arguments` is a JSON object as
    text, repaired if it could be; `fingerprint` is made of name and canonical
    arguments, `result_fingerprint` of the result without volatile fields.
    """

    id: int
    position: int
    name: str
    arguments: str
    upstream: str = ""
    provider_call_id: str = ""
    fingerprint: bytes = b""
    result_fingerprint: bytes | None = None
    state: CallState = CallState.PENDING
    result_memory_id: int | None = None
    started_at: int | None = None
    ended_at: int | None = None

    @property
    def wire_id(self) -> str:
        """The id that requests carry, unique for ever."""
        return f"c{self.id}"


@dataclass(frozen=True, slots=True)
class Native:
    """A provider's own blocks that must go back unchanged, to it alone.

    `provider` and `model` say to whom; `blocks` is a JSON array as text.
    """

    provider: str
    model: str
    blocks: str


@dataclass(frozen=True, slots=True)
class Memory:
    """One stored message. Conversation order is `(turn_number, seq)`; storage order is `id`.

    `label` is the line Zoea writes above a prompt that is not the commander's
    (`[message from mysis alpha]`), empty otherwise; `content` is always verbatim.
    For role `tool`, `call_id` is the row id of the answered call and `is_error`
    says how it went. `tokens` is the estimate of content and reasoning, made
    once before storing.
    """

    id: int
    mysis_id: int
    turn_id: int
    turn_number: int
    seq: int
    role: Role
    source: Source
    content: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: int | None = None
    tool_name: str = ""
    is_error: bool = False
    label: str = ""
    sender_id: int | None = None
    message_id: int | None = None
    native: Native | None = None
    partial: bool = False
    tokens: int = 0
    created_at: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call. None means the provider did not say."""

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_micros: int | None = None

    @property
    def total(self) -> int | None:
        if self.input_tokens is None and self.output_tokens is None:
            return None
        return (self.input_tokens or 0) + (self.output_tokens or 0)


@dataclass(frozen=True, slots=True)
class Sender:
    """Who speaks. The commander has no name and no id."""

    kind: SenderKind = SenderKind.COMMANDER
    id: int | None = None
    name: str = ""

    @property
    def is_person(self) -> bool:
        return self.kind is not SenderKind.MYSIS


COMMANDER = Sender()


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message in one mysis's inbox."""

    id: int
    message_id: int
    mysis_id: int
    kind: MessageKind
    sender: Sender
    content: str
    mode: DeliveryMode
    hop: int
    created_at: int
    state: DeliveryState = DeliveryState.PENDING
    reason: str = ""
    turn_id: int | None = None

    @property
    def label(self) -> str:
        """The first line that only Zoea writes; see turns.md, Labels."""
        return label(self.kind, self.sender)


def label(kind: MessageKind, sender: Sender) -> str:
    """The line above a prompt that says who speaks; none for the commander."""
    if sender.kind is SenderKind.COMMANDER:
        return ""
    what = "broadcast" if kind is MessageKind.BROADCAST else "message"
    return f"[{what} from {sender.kind} {sender.name}]"


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as a row keeps it: class, title, what happened, what to do."""

    kind: str
    title: str
    what: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Mysis:
    """One agent as it stands in the store."""

    id: int
    uid: str
    name: str
    template: str
    template_hash: bytes
    provider: str
    model: str
    state: MysisState
    state_reason: str
    state_at: int
    failure: Failure | None = None
    retry_at: int | None = None
    retry_count: int = 0
    held: bool = False
    tags: tuple[str, ...] = ()
    created_at: int = 0
    deleted_at: int | None = None
    encouragement: int = 0
    wait_until: int | None = None
    wait_reason: str = ""


@dataclass(frozen=True, slots=True)
class MysisView:
    """One row of the swarm as fronts show it: the stored part and the live one.

    `tokens` and `cost_micros` are totals of all time; `context_used` and
    `context_limit` are of the newest request; `turn_tokens` is what its turn has
    used of the `turn_limit` it may (0: no bound); `questions` are those of its
    `approvals` that want an answer in words; `text` is the newest of question,
    error, final answer, tool call, prompt, with its own time `text_at`;
    `streaming` and `thinking` are the ends of the answer and of the reasoning
    that are being written now.
    """

    id: int
    name: str
    template: str
    provider: str
    model: str
    state: MysisState
    state_reason: str
    state_at: int
    activity: Activity
    failure: Failure | None
    retry_at: int | None
    held: bool
    tags: tuple[str, ...]
    turns: int = 0
    tool_calls: int = 0
    errors: int = 0
    requests: int = 0
    tokens: int = 0
    cost_micros: int | None = None
    pending: int = 0
    approvals: int = 0
    turn_number: int = 0
    iteration: int = 0
    context_used: int = 0
    context_limit: int = 0
    turn_tokens: int = 0
    turn_limit: int = 0
    waiting_until: int | None = None
    waiting_for: str = ""
    progress_at: int = 0
    text: str = ""
    text_at: int = 0
    streaming: str = ""
    thinking: str = ""
    version: int = 0
    questions: int = 0


@dataclass(frozen=True, slots=True)
class SwarmView:
    """The swarm at one moment; `version` grows with every change.

    Where it tells of changes, `myses` are those that changed and `removed` the
    ids of those that are gone.
    """

    version: int
    held: bool
    hold_reason: str
    myses: tuple[MysisView, ...]
    tokens_today: int = 0
    budget_today: int | None = None
    cost_today_micros: int | None = None
    event_id: int = 0
    started_at: int = 0
    removed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ReceiptLine:
    """What became of a message for one recipient.

    `status` is one of delivered, started, skipped, waiting (beyond max hops),
    taken, answered, not answered, withdrawn.
    """

    mysis: str
    status: str
    reason: str = ""
    delivery_id: int | None = None
    turn_id: int | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a sender gets back at once, and can read again later."""

    message_id: int
    lines: tuple[ReceiptLine, ...]

    @property
    def delivered(self) -> int:
        return sum(1 for line in self.lines if line.status not in ("skipped", "withdrawn"))


@dataclass(frozen=True, slots=True)
class Recipients:
    """Whom a broadcast goes to: everybody, or those that match every given part."""

    names: tuple[str, ...] = ()
    tag: str = ""
    state: MysisState | None = None

    @property
    def is_everybody(self) -> bool:
        return not self.names and not self.tag and self.state is None


@dataclass(frozen=True, slots=True)
class ApprovalView:
    """What waits for a person's answer, shown whole: a tool call, or going on beyond a budget.

    `kind` is `tool` or `budget`; of a budget, `tool` says so in words and `arguments`
    is an object with its scope (`turn`, `mysis`, `swarm`), tokens and limit.
    """

    id: int
    mysis_id: int
    mysis: str
    tool: str
    upstream: str
    arguments: str
    asked_at: int
    expires_at: int
    kind: str = "tool"


@dataclass(frozen=True, slots=True)
class GrantView:
    """A tool that the myses of a template may call without asking, because a person said so once.

    It counts for the tool as it was then: one that its upstream changed asks again. `upstream` is empty for Zoea's own.
    """

    id: int
    template: str
    upstream: str
    tool: str
    granted_at: int


@dataclass(frozen=True, slots=True)
class ToolView:
    """A tool as its upstream lists it. `schema` is its input schema as JSON text, whole.

    `injected` names the arguments that Zoea fills in for a mysis and no model sees.
    """

    name: str
    description: str
    schema: str
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    injected: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UpstreamView:
    """An upstream as fronts show it. Milliseconds; None where nothing was measured yet.

    `state` is opening, open, lost (being re-opened), down (retries spent, still
    tried slowly) or closed. `log` is the file with its children's stderr, empty
    where there are none.
    """

    name: str
    transport: str
    state: str
    tools: tuple[ToolView, ...] = ()
    sessions: int = 0
    in_flight: int = 0
    calls: int = 0
    errors: int = 0
    latency_ms: float | None = None
    open_ms: float | None = None
    last_error: str = ""
    server: str = ""
    log: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class ProviderView:
    """A provider, tried just now by asking for its models, which costs nothing.

    `models` is None where it did not answer; then `problem` says why and `hint`
    what to do. `latency_ms` is how long the answer took.
    """

    name: str
    kind: str
    label: str
    latency_ms: float | None = None
    models: tuple[str, ...] | None = None
    problem: str = ""
    hint: str = ""
    metered: bool = True
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class McpView:
    """Whether the owner serves MCP clients over HTTP, and where.

    `url` is empty while it does not; `problem` says why it could not, or cannot at the moment.
    """

    url: str = ""
    problem: str = ""

    @property
    def is_on(self) -> bool:
        return bool(self.url)


@dataclass(frozen=True, slots=True)
class ToolTrial:
    """What a tool gave when a person tried it by hand."""

    content: str
    is_error: bool
    took_us: int


@dataclass(frozen=True, slots=True)
class Event:
    """A durable fact: ids, numbers and fixed texts, never what anyone said."""

    id: int
    kind: str
    mysis_id: int | None
    data: dict[str, str | int | float | bool | None] = field(default_factory=dict)
    created_at: int = 0


@dataclass(frozen=True, slots=True)
class Lagged:
    """A subscriber's queue was full: read the table from `last_id` on."""

    last_id: int


_CLIENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")


def check_client_name(name: str) -> str:
    """The name, where a client may be called so. Raises UsageError."""
    if not _CLIENT_NAME.fullmatch(name) or name.casefold() == "commander":
        raise UsageError(
            f"{name!r:.60} is no name for a client",
            hint="Use 1 to 40 letters, digits, '-', '_' or '.', starting with a letter or digit; not commander.",
        )
    return name
