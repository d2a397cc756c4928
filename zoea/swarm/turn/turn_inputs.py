"""What an open turn is told: the inputs of the turn machine. Times are µs UTC."""

from __future__ import annotations

from msgspec import Struct

from zoea.context import Note
from zoea.context.topics.output_check import OutputCheck
from zoea.model.enums import ApprovalAnswer, ErrorClass, Outcome
from zoea.model.request import Answer, ToolResult
from zoea.model.values import Failure, Memory, ToolCall, Usage
from zoea.swarm.turn.turn_state import PastCall


class TurnOpened(Struct, frozen=True):
    """The turn can begin or continue: its needs are read.

    `calls` and `texts` are those of the previous turn, for the loop guard.
    """

    at: int
    calls: tuple[PastCall, ...] = ()
    texts: tuple[str, ...] = ()


class SummaryWanted(Struct, frozen=True):
    """The turn cannot be planned before a model has written a part of its summary."""

    at: int


class Summarised(Struct, frozen=True):
    """A part of the summary is written and stored."""

    at: int


class SummaryFailed(Struct, frozen=True):
    """The model wrote no part."""

    at: int
    can_retry: bool = False


class Planned(Struct, frozen=True):
    """The request is planned. `last_request` tells the model that the budget allows no request after it, "" if not."""

    at: int
    last_request: str = ""


class Unplannable(Struct, frozen=True):
    """The required parts of the request do not fit."""

    at: int
    failure: Failure


class BudgetVerdict(Struct, frozen=True):
    """The decision of the budgets: go, rest until a time, or refused with a reason and what to do.

    After a hold (`held`) or a question to a person (`asked`, ended by `TimePassed`) the budgets are
    asked again.
    """

    at: int
    request_id: int = 0
    rest_until: int | None = None
    held: bool = False
    asked: bool = False
    refused: str = ""
    hint: str = ""
    stops: bool = False


class PreparedCall(Struct, frozen=True):
    """A call as it will be stored; it runs only if it is `known` and neither `broken` nor `skipped`.

    `skipped` is the result of a call beyond the limit.
    """

    name: str
    arguments: str
    upstream: str = ""
    provider_call_id: str = ""
    fingerprint: bytes = b""
    broken: str = ""
    known: bool = True
    read_only: bool = False
    asks: bool = False
    schema_hash: str = ""
    grant_scope: str | None = None
    skipped: str = ""

    @property
    def can_run(self) -> bool:
        return self.known and not self.broken and not self.asks and not self.skipped


class Answered(Struct, frozen=True):
    """The answer of the model; `output` is its check where its role has an output schema."""

    at: int
    answer: Answer
    calls: tuple[PreparedCall, ...] = ()
    output: OutputCheck | None = None


class CallFailed(Struct, frozen=True):
    """The request failed. `retry_after` is in seconds, `jitter` in [0, 1), `partial` the streamed part.

    `cause` is a word or two: `429`, `timeout`. `limit` are the tokens for the next plan where this one was too long,
    always fewer than it had.
    """

    at: int
    failure: Failure
    error_class: ErrorClass
    retry_after: float | None = None
    jitter: float = 0.0
    usage: Usage = Usage()
    partial: Answer | None = None
    cause: str = ""
    limit: int | None = None


class OpStored(Struct, frozen=True):
    """The op is durable: new `memories`, changed `calls`, and `taken` deliveries."""

    at: int
    memories: tuple[Memory, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    notes: tuple[Note, ...] = ()
    taken: tuple[int, ...] = ()


class CallFinished(Struct, frozen=True):
    at: int
    call_id: int
    result: ToolResult


class Approved(Struct, frozen=True):
    at: int
    call_id: int
    answer: ApprovalAnswer
    sentence: str = ""


class Steered(Struct, frozen=True):
    """Messages that join the next request."""

    at: int
    deliveries: tuple[int, ...]


class HoldChanged(Struct, frozen=True):
    """A hold began or ended. Calls in flight continue."""

    at: int
    on: bool


class HoldLifted(Struct, frozen=True):
    """No hold is on: continue."""

    at: int


class CallWithheld(Struct, frozen=True):
    """A hold began while the provider delayed the request; it was not sent."""

    at: int


class TimePassed(Struct, frozen=True):
    """The time, and when the turn last made progress or had an excuse."""

    at: int
    progress_at: int = 0


class ClockJumped(Struct, frozen=True):
    """The wall clock was set by this many µs; every time of the turn moves by as much."""

    delta: int


class TurnCancelled(Struct, frozen=True):
    """Everything in flight was cancelled; results so far come along.

    `unsent`: the request never left. `on_wire`: calls that were sent and have no result.
    """

    at: int
    outcome: Outcome
    partial: Answer | None = None
    finished: tuple[CallFinished, ...] = ()
    unsent: bool = False
    on_wire: frozenset[int] = frozenset()


TurnInput = (
    TurnOpened
    | SummaryWanted
    | Summarised
    | SummaryFailed
    | Planned
    | Unplannable
    | BudgetVerdict
    | Answered
    | CallFailed
    | OpStored
    | CallFinished
    | Approved
    | Steered
    | HoldChanged
    | HoldLifted
    | CallWithheld
    | TimePassed
    | ClockJumped
    | TurnCancelled
)
