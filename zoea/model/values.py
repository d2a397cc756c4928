"""The values shared by all packages: memories, calls, myses, deliveries, views.

Frozen structs with properties of their own fields only. Times are integer microseconds since
the epoch, UTC; durations in settings are seconds.
"""

from __future__ import annotations

import re
from typing import ClassVar

from msgspec import Struct, field

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
from zoea.model.errors import REFUSED_KEY, UsageError
from zoea.model.status import StatusWord, find_status


class ToolCall(Struct, frozen=True):
    """A call that a model asked for.

    Attributes:
        id: The row id; requests carry `wire_id`.
        arguments: A JSON object as text, repaired if possible.
        fingerprint: Of name and canonical arguments.
        result_fingerprint: Of the result without volatile fields.
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
        """The id in requests, unique for ever."""
        return f"c{self.id}"


class Native(Struct, frozen=True):
    """A provider's own blocks, sent back unchanged and only to the same provider and model.

    `blocks` is a JSON array as text.
    """

    provider: str
    model: str
    blocks: str


class Memory(Struct, frozen=True):
    """One stored message. Conversation order is `(turn_number, seq)`, storage order is `id`.

    Attributes:
        content: Always verbatim.
        call_id: For role `tool`, the row id of the answered call.
        label: The line above a prompt that is not the commander's (`[message from mysis alpha]`).
        tokens: The estimate of content and reasoning, made once before storing.
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


class Usage(Struct, frozen=True):
    """Tokens of one model call; None means the provider did not report them."""

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_micros: int | None = None
    write_surcharge: int | None = None
    """As many input tokens as the vendor charges more for, because it wrote others into its cache."""

    @property
    def total(self) -> int | None:
        if self.input_tokens is None and self.output_tokens is None:
            return None
        return (self.input_tokens or 0) + (self.output_tokens or 0)


class Sender(Struct, frozen=True):
    """The sender of a message. The commander has no name and no id."""

    kind: SenderKind = SenderKind.COMMANDER
    id: int | None = None
    name: str = ""

    @property
    def is_person(self) -> bool:
        return self.kind is not SenderKind.MYSIS


COMMANDER = Sender()


class Delivery(Struct, frozen=True):
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
    is_task: bool = False
    topic: str = ""
    context: str = ""

    @property
    def label(self) -> str:
        """The line above the prompt; see `label`."""
        return label(self.kind, self.sender, self.topic)


def label(kind: MessageKind, sender: Sender, topic: str = "") -> str:
    """Return the line above a prompt that names its sender. "" for the commander, except on a topic."""
    if topic:
        who = "the commander" if sender.kind is SenderKind.COMMANDER else f"{sender.kind} {sender.name}"
        return f"[topic {topic}, from {who}]"
    if sender.kind is SenderKind.COMMANDER:
        return ""
    what = "broadcast" if kind is MessageKind.BROADCAST else "message"
    return f"[{what} from {sender.kind} {sender.name}]"


class Failure(Struct, frozen=True):
    """An error as a row stores it."""

    kind: str
    title: str
    what: str = ""
    hint: str = ""

    @property
    def is_refused_key(self) -> bool:
        return self.title == REFUSED_KEY


class Mysis(Struct, frozen=True):
    """One agent as stored.

    Attributes:
        is_asked: It was made to answer questions about a commit, and rests after each.
        works_on, agent: Its folder or `worktree of` one; the external agent that plays it. Empty for none.
    """

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
    goal: str = ""
    goal_reached_at: int | None = None
    nothing_new: int = 0
    is_reviewed: bool = False
    is_asked: bool = False
    held_reason: str = ""
    works_on: str = ""
    agent: str = ""


class CommitQuestion(Struct, frozen=True):
    """A question that a mysis made from a commit answers.

    Attributes:
        mysis: The one that answers; wait for it, then read its newest answer.
        thread: The discussion; name it again to go on in it.
        ref: The branch of the discussion.
        context: The id of the commit that it knows the conversation up to.
    """

    mysis: MysisView
    thread: str
    ref: str
    context: str


class MysisOverrides(Struct, frozen=True):
    """Values of a new mysis in place of those of its commit's mysis. Empty keeps them."""

    template: str = ""
    provider: str = ""
    model: str = ""


SAME_MYSIS = MysisOverrides()


class MysisView(Struct, frozen=True):
    """One mysis as fronts show it: stored and live values.

    Attributes:
        tokens, cost_micros: Total of all time.
        context_used, context_limit, context_messages: Of the newest request; no messages until this run made one.
        is_summarising: A model summarises earlier messages before the next request.
        turn_limit: Tokens the turn may use; 0 is no bound.
        questions: The number of `approvals` that need an answer in words.
        text: The newest of question, error, final answer, tool call, prompt.
        streaming, thinking: The end of the answer and of the reasoning being written.
        streamed_before: Where `streaming` begins among all characters that it wrote in this run. An answer does not
            begin where the one before ended, so that it is not taken for its continuation.
        retry_count: The number of the recovery that `retry_at` starts.
        held_reason: Why a person paused it; empty where they did not say.
        swarm_held, in_turn: The whole swarm is on hold (`held` is this mysis); a turn is open and advances.
        queue_place, queue_name: Place of its request, 1 for the next, 0 if it does not queue; the provider.
        queue_why: Why its provider takes no request of it now.
        queue_until: When that ends, µs UTC; None where it is unknown.
        attempt, attempts: The next attempt of the same request, and how many there are.
        attempt_at, attempt_why: When the next attempt starts, None if none is due; why: `429`, `timeout`.
        reading: Percent of the prompt that the server has read; None where it writes or did not say.
        prepares_model, awaits_tools: Its turn waits for its model to be loaded, or for tool servers to open.
        answered_by: The model that answers where the mysis names none; empty before its first turn.
        window_assumed: Tokens that are assumed as the model's context window; 0 where the window is known.
        goal: Its task, or the goal of its template; empty where it only answers. A `SwarmView` has 1,000 characters.
        is_reviewed: A person has dismissed its present error or its end.
        is_at_rest: It goes on only after a message or a command: no turn, nudge, wait or retry is due.
        works_on, agent: Its folder or `worktree of` one; the external agent that plays it. Empty for none.
    """

    derived: ClassVar[tuple[str, ...]] = ("status",)
    """Properties that JSON holds beside the fields."""

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
    retry_count: int = 0
    swarm_held: bool = False
    in_turn: bool = False
    queue_place: int = 0
    queue_name: str = ""
    queue_why: str = ""
    queue_until: int | None = None
    attempt: int = 0
    attempts: int = 0
    attempt_at: int | None = None
    attempt_why: str = ""
    reading: int | None = None
    prepares_model: bool = False
    awaits_tools: bool = False
    answered_by: str = ""
    window_assumed: int = 0
    context_messages: int = 0
    is_summarising: bool = False
    goal: str = ""
    goal_reached_at: int | None = None
    is_reviewed: bool = False
    is_at_rest: bool = False
    held_reason: str = ""
    streamed_before: int = 0
    works_on: str = ""
    agent: str = ""

    @property
    def status(self) -> StatusWord:
        """The one word that fronts show."""
        return find_status(self)


class UpstreamFault(Struct, frozen=True):
    """An upstream without connection, and the templates that use it. `state` is lost or down."""

    name: str
    state: str
    why: str
    templates: tuple[str, ...] = ()


class SwarmView(Struct, frozen=True):
    """The swarm at one moment; `version` grows with every change.

    `myses` are in the order of their ids, in which they were made: lists, exports and imports keep it.
    In a report of changes, `myses` are the changed ones, `removed` the ids of deleted ones. `budget_today` (tokens) and
    `money_today` (micros) are limits. `lag_ms` is how long the owner's loop stood still, until `lagged_at` (µs UTC).
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
    lag_ms: int = 0
    lagged_at: int = 0
    faults: tuple[UpstreamFault, ...] = ()
    money_today: int | None = None


class ReceiptLine(Struct, frozen=True):
    """The result of a message for one recipient.

    `status` is delivered, started, skipped, waiting (for the end of a hold, or above max hops), taken, answered,
    not answered, or withdrawn.
    """

    mysis: str
    status: str
    reason: str = ""
    delivery_id: int | None = None
    turn_id: int | None = None

    @property
    def is_settled(self) -> bool:
        return self.status in ("answered", "not answered", "withdrawn", "skipped")


class Receipt(Struct, frozen=True):
    """The results of a message, returned at once and readable later.

    `notes` says, only when it is sent, which of its limits have no effect.
    """

    message_id: int
    lines: tuple[ReceiptLine, ...]
    notes: tuple[str, ...] = ()

    @property
    def delivered(self) -> int:
        return sum(1 for line in self.lines if line.status not in ("skipped", "withdrawn"))


class Recipients(Struct, frozen=True):
    """The recipients of a broadcast: all, or those that match every given part."""

    names: tuple[str, ...] = ()
    tag: str = ""
    state: MysisState | None = None

    @property
    def is_everybody(self) -> bool:
        return not self.names and not self.tag and self.state is None


class ApprovalView(Struct, frozen=True):
    """A tool call or a budget that waits for the commander's approval.

    For `kind` `budget`, `tool` describes it in words and `arguments` an object with scope (`turn`, `mysis`, `swarm`),
    tokens and limit. Arguments that are cut are whole in the database. Where the tool takes a command, `grant_scope` is
    what a grant covers, or "" where it can be allowed only once; else it is None, and a grant covers all arguments.
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
    is_cut: bool = False
    grant_scope: str | None = None

    @property
    def why_no_grant(self) -> str:
        """Why no grant for a template can cover it; empty where one can."""
        if self.kind == "budget":
            return "a budget cannot be exceeded for a whole template"
        return self.why_once

    @property
    def why_once(self) -> str:
        """Why it can be allowed only once. Empty where it can be allowed until its mysis stops."""
        return "this command can be allowed only once" if self.grant_scope == "" else ""


class GrantView(Struct, frozen=True):
    """A tool that the myses of a template may call without asking.

    It applies to the tool as it was granted; a changed tool asks again. `upstream` is empty for Zoea's own tools. After
    the name of a tool that takes a command stands the one that it may run: `run: pytest -q`.
    """

    id: int
    template: str
    upstream: str
    tool: str
    granted_at: int


class ToolView(Struct, frozen=True):
    """A tool as its upstream lists it.

    `schema` is its whole input schema as JSON text; `injected` names those that Zoea fills in and no model sees.
    """

    name: str
    description: str
    schema: str
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    injected: tuple[str, ...] = ()


class UpstreamView(Struct, frozen=True):
    """An upstream as fronts show it. Durations are milliseconds, None if not measured.

    Attributes:
        state: opening, open, lost (reconnecting), down (retries spent, retried slowly) or closed.
        log: The file with its processes' stderr; empty if there is none.
        notes: Sentences on tools that were left out, cut or renamed.
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
    notes: tuple[str, ...] = ()


class Throttle(Struct, frozen=True):
    """A limit that refusals of a provider put on one of its models.

    Attributes:
        until: When the next request may go, µs UTC; None where it may go now.
        places: How many requests may be under way at once; each answer opens one more.
    """

    model: str
    until: int | None
    places: int


class ProviderView(Struct, frozen=True):
    """A provider and the result of listing its models, which costs nothing.

    `models` is None if it did not answer; then `problem` and `hint` say why and what to do. `throttles` are the rate
    limits that keep requests back now.
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
    throttles: tuple[Throttle, ...] = ()


class McpView(Struct, frozen=True):
    """Whether the owner serves MCP clients over HTTP, and where.

    `url` is empty while it does not; `problem` says why it could not.
    """

    url: str = ""
    problem: str = ""

    @property
    def is_on(self) -> bool:
        return bool(self.url)


class ToolTrial(Struct, frozen=True):
    """The result of a tool tried by hand."""

    content: str
    is_error: bool
    took_us: int


class Event(Struct, frozen=True):
    """A durable fact: ids, numbers and fixed texts, never message text.

    One with the id 0 is told to those who listen, and stored nowhere: it can be made from the rows of requests.
    """

    id: int
    kind: str
    mysis_id: int | None
    data: dict[str, str | int | float | bool | None] = field(default_factory=dict)
    created_at: int = 0


class Lagged(Struct, frozen=True):
    """A subscriber's queue overflowed: read the event table from `last_id` on."""

    last_id: int


_CLIENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")


def check_client_name(name: str) -> str:
    """Return the name if a client may have it. Raises UsageError where it is invalid or reserved."""
    if not _CLIENT_NAME.fullmatch(name) or name.casefold() == "commander":
        hint = "Use 1 to 40 letters, digits, '-', '_' or '.', starting with a letter or digit; not commander."
        raise UsageError(f"{name!r:.60} is not a valid client name", hint=hint)
    return name
