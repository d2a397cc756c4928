"""The closed sets of the design, one enumeration each.

Their values are stored in the database and sent over the socket, in events and in `--json`.
"""

from __future__ import annotations

from enum import StrEnum


class MysisState(StrEnum):
    """The persisted state of a mysis; it decides which messages are accepted."""

    IDLE = "idle"
    RUNNING = "running"
    STOPPED = "stopped"
    ERRORED = "errored"

    @property
    def accepts_messages(self) -> bool:
        return self in (MysisState.IDLE, MysisState.RUNNING)


class Activity(StrEnum):
    """The current activity of a mysis, for display only."""

    IDLE = "idle"
    LLM = "llm"
    TOOL = "tool"
    WAITING = "waiting"
    ASKING = "asking"


class Role(StrEnum):
    """The author of a message, as model APIs name it."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Source(StrEnum):
    """The origin of a memory; `SYSTEM` exists only in plans, never in a row."""

    DIRECT = "direct"
    BROADCAST = "broadcast"
    TOPIC = "topic"
    TOOL = "tool"
    LLM = "llm"
    SYSTEM = "system"


class ToolShow(StrEnum):
    """How a request shows the tools of upstreams."""

    ALL = "all"
    SEARCH = "search"
    AUTO = "auto"


class SenderKind(StrEnum):
    """The kind of a message's sender."""

    COMMANDER = "commander"
    MYSIS = "mysis"
    CLIENT = "client"


class MessageKind(StrEnum):
    """Whether a message is for one recipient, for many, or for a topic's subscribers."""

    DIRECT = "direct"
    BROADCAST = "broadcast"
    TOPIC = "topic"


class DeliveryMode(StrEnum):
    """How a message joins a running mysis."""

    QUEUE = "queue"
    STEER = "steer"
    INTERRUPT = "interrupt"


class DeliveryState(StrEnum):
    """The state of a message in one inbox."""

    PENDING = "pending"
    TAKEN = "taken"
    SKIPPED = "skipped"
    WITHDRAWN = "withdrawn"


class OpenedBy(StrEnum):
    """The reason a turn was opened."""

    PROMPT = "prompt"
    NUDGE = "nudge"


class Outcome(StrEnum):
    """How a turn ended. `leaves_open` outcomes resume the same turn."""

    ANSWERED = "answered"
    ITERATION_LIMIT = "iteration_limit"
    LOOP = "loop"
    BUDGET = "budget"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CRASHED = "crashed"

    @property
    def leaves_open(self) -> bool:
        """Whether the same turn continues at relaunch, recovery or restart."""
        return self in (Outcome.FAILED, Outcome.TIMEOUT, Outcome.CRASHED)


class CallState(StrEnum):
    """The state of a tool call; `SENT` after a crash means its result is unknown."""

    PENDING = "pending"
    APPROVAL = "approval"
    SENT = "sent"
    DONE = "done"
    ERROR = "error"
    DENIED = "denied"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"

    @property
    def is_open(self) -> bool:
        return self in (CallState.PENDING, CallState.APPROVAL, CallState.SENT)


class RequestState(StrEnum):
    """The state of a request's token reservation."""

    RESERVED = "reserved"
    SETTLED = "settled"
    ESTIMATED = "estimated"
    RELEASED = "released"
    REFUSED = "refused"


class ErrorClass(StrEnum):
    """The class of a failed model call, which decides whether it is retried."""

    TRANSIENT = "transient"
    AUTH = "auth"
    QUOTA = "quota"
    CONTEXT_LENGTH = "context_length"
    BAD_REQUEST = "bad_request"
    MODEL_MISSING = "model_missing"
    CONTENT_FILTER = "content_filter"
    CANCELLED = "cancelled"

    @property
    def is_transient(self) -> bool:
        return self is ErrorClass.TRANSIENT


class Finish(StrEnum):
    """The reason a model stopped generating."""

    STOP = "stop"
    CALLS = "calls"
    LENGTH = "length"
    FILTER = "filter"
    UNKNOWN = "unknown"


class ToolForm(StrEnum):
    """How a prompt describes tools. The first two are of a turn; BY_SIZE and BY_MODE become one of them at opening.

    BY_SIZE takes signatures where whole schemas would be large, BY_MODE does so where answers keep to a schema.
    """

    WHOLE = ""
    SIGNATURES = "signatures"
    BY_SIZE = "by_size"
    BY_MODE = "by_mode"


class ToolMode(StrEnum):
    """How a model calls tools; AUTO starts with NATIVE and falls back to JSON_SCHEMA."""

    AUTO = "auto"
    NATIVE = "native"
    JSON_SCHEMA = "json_schema"


MASK = "‹account›"
"""Replaces, in storage and display, an argument that Zoea filled in and no model may see."""
ASK_TOOL = "zoea_ask"
"""Zoea's tool for a question to the commander; the approval is the answer."""
DONE_TOOL = "zoea_done"
SEND_TOOL = "zoea_send_message"
WAIT_TOOL = "zoea_wait"
FIND_TOOL = "zoea_find_tools"
CALL_TOOL = "zoea_call_tool"


class ApprovalAnswer(StrEnum):
    """The commander's answer to an approval."""

    ONCE = "once"
    SESSION = "session"
    TEMPLATE = "template"
    DENIED = "denied"
    EXPIRED = "expired"

    @property
    def allows(self) -> bool:
        return self in (ApprovalAnswer.ONCE, ApprovalAnswer.SESSION, ApprovalAnswer.TEMPLATE)
