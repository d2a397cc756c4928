"""The closed sets of the design, one enumeration each.

Their values are what the database, the socket, events and `--json` carry, so a
name here is a name everywhere.
"""

from __future__ import annotations

from enum import StrEnum


class MysisState(StrEnum):
    """What a mysis is, persisted; gates what it accepts."""

    IDLE = "idle"
    RUNNING = "running"
    STOPPED = "stopped"
    ERRORED = "errored"

    @property
    def accepts_messages(self) -> bool:
        return self in (MysisState.IDLE, MysisState.RUNNING)


class Activity(StrEnum):
    """What a mysis does this moment; for display, gates nothing."""

    IDLE = "idle"
    LLM = "llm"
    TOOL = "tool"
    WAITING = "waiting"
    ASKING = "asking"


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Source(StrEnum):
    """Where a memory came from; `SYSTEM` exists only in plans, never in a row."""

    DIRECT = "direct"
    BROADCAST = "broadcast"
    TOPIC = "topic"
    TOOL = "tool"
    LLM = "llm"
    SYSTEM = "system"


class SenderKind(StrEnum):
    COMMANDER = "commander"
    MYSIS = "mysis"
    CLIENT = "client"


class MessageKind(StrEnum):
    DIRECT = "direct"
    BROADCAST = "broadcast"


class DeliveryMode(StrEnum):
    """How a message joins a running mysis."""

    QUEUE = "queue"
    STEER = "steer"
    INTERRUPT = "interrupt"


class DeliveryState(StrEnum):
    PENDING = "pending"
    TAKEN = "taken"
    SKIPPED = "skipped"
    WITHDRAWN = "withdrawn"


class OpenedBy(StrEnum):
    PROMPT = "prompt"
    NUDGE = "nudge"


class Outcome(StrEnum):
    """How a turn ended. Three of them leave it open, to be resumed."""

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
        """True where the same turn goes on at relaunch, recovery or restart."""
        return self in (Outcome.FAILED, Outcome.TIMEOUT, Outcome.CRASHED)


class CallState(StrEnum):
    """Where a tool call stands. `SENT` without an end means it was on the wire."""

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
    RESERVED = "reserved"
    SETTLED = "settled"
    ESTIMATED = "estimated"
    RELEASED = "released"
    REFUSED = "refused"


class ErrorClass(StrEnum):
    """What a failed model call means for the turn. Only some are worth a retry."""

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
    """Why a model stopped writing."""

    STOP = "stop"
    CALLS = "calls"
    LENGTH = "length"
    FILTER = "filter"
    UNKNOWN = "unknown"


MASK = "‹account›"
"""Stands wherever something is stored or shown in which Zoea filled in an argument that no model may see."""
ASK_TOOL = "zoea_ask"
"""Zoea's own tool by which a mysis asks the commander: its approval is the answer, in words."""


class ApprovalAnswer(StrEnum):
    ONCE = "once"
    SESSION = "session"
    TEMPLATE = "template"
    DENIED = "denied"
    EXPIRED = "expired"

    @property
    def allows(self) -> bool:
        return self in (ApprovalAnswer.ONCE, ApprovalAnswer.SESSION, ApprovalAnswer.TEMPLATE)
