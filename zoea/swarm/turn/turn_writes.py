"""The write operations of a turn; each is stored whole or not at all. Times are µs UTC."""

from __future__ import annotations

from msgspec import Struct

from zoea.model.enums import CallState, ErrorClass, Finish, Outcome
from zoea.model.request import Answer, ToolResult
from zoea.model.values import Failure, Usage
from zoea.swarm.turn.turn_inputs import PreparedCall
from zoea.swarm.turn.turn_state import TurnEnd


class StoreAnswer(Struct, frozen=True):
    """Store the answer, its calls and the usage; calls at the positions `start` are sent at once.

    With `outcome` the turn is over, and `end` is what the life machine hears.

    Attributes:
        note: Stored with it where the output does not match its schema: the turn goes on with another answer.
        output: JSON to publish in the same op.
    """

    turn_id: int
    request_id: int
    seq: int
    answer: Answer
    calls: tuple[PreparedCall, ...] = ()
    start: tuple[int, ...] = ()
    outcome: Outcome | None = None
    end: TurnEnd | None = None
    note: StoreNote | None = None
    output: str = ""
    failure: Failure | None = None


class StoreResult(Struct, frozen=True):
    """Store the result of a call at its reserved place; `state` is how the call ended.

    `repeats` are the ids and places of identical calls that it was run once for.
    """

    turn_id: int
    call_id: int
    seq: int
    result: ToolResult
    state: CallState
    repeats: tuple[tuple[int, int], ...] = ()


class MarkSent(Struct, frozen=True):
    """Mark these calls as sent."""

    call_ids: tuple[int, ...]


class TakeSteers(Struct, frozen=True):
    """Add deliveries to the turn as prompts, as many as fit."""

    turn_id: int
    delivery_ids: tuple[int, ...]
    seq: int


class StoreNote(Struct, frozen=True):
    """Store a note of Zoea to the model, after the memory with `after_seq`."""

    turn_id: int
    after_seq: int
    kind: str
    content: str


class SettleRequest(Struct, frozen=True):
    """Settle a request with an empty answer."""

    request_id: int
    usage: Usage
    finish: Finish


class RetryNote(Struct, frozen=True):
    """A retry, as people see it: the next attempt of so many, after a rest in µs, and why."""

    turn_id: int
    after_seq: int
    attempt: int
    attempts: int
    rest: int
    cause: str
    what: str


class FailRequest(Struct, frozen=True):
    """Release the reservation of a request without an answer, except for its usage; note a retry or a new limit."""

    request_id: int
    error_class: ErrorClass
    usage: Usage
    retry: RetryNote | None = None
    note: StoreNote | None = None


class LeaveTurn(Struct, frozen=True):
    """Stop a turn without an answer.

    `request_id` is the request without an answer, 0 if none: it failed with `error_class`, is in
    flight where that is None, or is `unsent`. `end` is what the life machine hears; its
    consequences are stored in the same op.
    """

    turn_id: int
    outcome: Outcome
    request_id: int
    partial: Answer | None
    seq: int
    results: tuple[StoreResult, ...]
    failure: Failure | None
    unsent: bool = False
    error_class: ErrorClass | None = None
    usage: Usage = Usage()
    end: TurnEnd | None = None


class CloseTurn(LeaveTurn, frozen=True):
    """End the turn for good: every call has its result."""


class BreakOffTurn(LeaveTurn, frozen=True):
    """Leave the turn open; calls keep their states."""


class ResumeTurn(Struct, frozen=True):
    """Resume a turn that broke off: open calls get results, and the attempt is counted."""

    turn_id: int
    results: tuple[StoreResult, ...]


TurnOp = (
    StoreAnswer
    | StoreResult
    | MarkSent
    | TakeSteers
    | StoreNote
    | SettleRequest
    | FailRequest
    | CloseTurn
    | BreakOffTurn
    | ResumeTurn
)
