"""The values of the turn machine: its state, inputs, write operations and effects. Times are uptimes in µs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from zoea.context import Note
from zoea.context.topics.output_check import OutputCheck
from zoea.model.enums import CallState, ErrorClass, Finish, Outcome
from zoea.model.request import Answer, GivenAnswer, ToolResult
from zoea.model.values import Failure, Memory, ToolCall, Usage
from zoea.swarm.rules import TurnRules, WaitRules
from zoea.swarm.turn.waits import Tick


class TurnPhase(StrEnum):
    OPENING = "opening"
    SUMMARISING = "summarising"
    PLANNING = "planning"
    RESERVING = "reserving"
    RESTING = "resting"
    HELD = "held"
    CALLING = "calling"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"


class NextStep(StrEnum):
    """The step after an acknowledgement or a rest."""

    NOTHING = "nothing"
    FETCH = "fetch"
    SUMMARISE = "summarise"
    REQUEST = "request"
    RESERVE = "reserve"
    REST = "rest"
    CALL = "call"
    RUN = "run"
    RUN_STARTED = "run_started"
    END = "end"


class PastCall(Struct, frozen=True):
    """A call of the previous turn, for the loop guard."""

    name: str
    fingerprint: bytes
    result_fingerprint: bytes | None


class PastRequest(Struct, frozen=True):
    """A request of this turn without an answer: failed, empty, cut off, or never sent."""

    attempt: int
    error_class: ErrorClass | None
    was_empty: bool


class TurnState(Struct, frozen=True):
    """The state of an open turn.

    Attributes:
        memories: Those of the turn, in conversation order.
        running: Ids of calls in flight.
        asked: Ids of calls with an approval asked in this process.
        read_only: Names of tools that may overlap.
        limit: Tokens that plans may use after a request was too long; None for the budget.
        too_long: How often a request of this turn was too long.
        refusal: Of the last one that was, for a turn whose next request cannot be made shorter.
        responded: The model gave text or calls.
        held: A hold was on when the machine last heard of it.
        known_ticks: The newest tick that each upstream told before the turn.
        allowed: The answers that allowed calls, by their ids; the results begin with what they say.
        resumed_at: When the turn went on after a restart, µs.
    """

    turn_id: int
    rules: TurnRules
    rules_wait: WaitRules
    nudged: bool = False
    phase: TurnPhase = TurnPhase.OPENING
    next: NextStep = NextStep.NOTHING
    at: int = 0
    memories: tuple[Memory, ...] = ()
    notes: tuple[Note, ...] = ()
    earlier_calls: tuple[PastCall, ...] = ()
    earlier_texts: tuple[str, ...] = ()
    read_only: frozenset[str] = frozenset()
    iteration: int = 0
    attempt: int = 1
    request_id: int = 0
    limit: int | None = None
    too_long: int = 0
    refusal: Failure | None = None
    empty_retried: bool = False
    summary_retried: bool = False
    responded: bool = False
    held: bool = False
    rest_until: int = 0
    running: frozenset[int] = frozenset()
    asked: frozenset[int] = frozenset()
    steers: tuple[int, ...] = ()
    partial: Answer | None = None
    outcome: Outcome | None = None
    failure: Failure | None = None
    error_class: ErrorClass | None = None
    stops: bool = False
    final: bool = False
    tick_length: int = 0
    known_ticks: Mapping[str, Tick] = field(default_factory=dict)
    allowed: Mapping[int, GivenAnswer] = field(default_factory=dict)
    resumed_at: int | None = None
    end: TurnEnd | None = None


class TurnEnd(Struct, frozen=True):
    """The turn ended or broke off, with the fields of `life.TurnEnded`.

    `tick_length` is in µs, 0 if unknown. `called` is True where it called a tool, `said` its texts.
    `ticks` are the newest that each upstream told in it; `summary` is what it reports as done.
    """

    outcome: Outcome
    responded: bool
    nudged: bool
    failure: Failure | None
    error_class: ErrorClass | None
    final: bool
    stops: bool
    wait_until: int | None
    wait_reason: str
    tick_length: int
    done: bool = False
    called: bool = False
    said: tuple[str, ...] = ()
    ticks: Mapping[str, Tick] = field(default_factory=dict)
    summary: str = ""


# Inputs.


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
    """The decision of the budgets: go, rest until a time, or refused with a reason.

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
    """A call as it will be stored. It runs only if it is `known` and neither `broken` nor `skipped`.

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
    """The answer of the model. `output` is its check where its role has an output schema."""

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
    given: GivenAnswer


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
    | TurnCancelled
)


# Write operations; each is stored whole or not at all.


class StoreAnswer(Struct, frozen=True):
    """Store the answer, its calls and the usage. Calls at the positions `start` are sent at once.

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
    """Store the result of a call at its reserved place. `state` is how the call ended.

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
    """A retry as people see it: its number, the rest before it in µs, and why."""

    turn_id: int
    after_seq: int
    attempt: int
    attempts: int
    rest: int
    cause: str
    what: str


class FailRequest(Struct, frozen=True):
    """Release the reservation of a request without an answer, except for its usage. Note a retry or a new limit."""

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


# Effects.


class Fetch(Struct, frozen=True):
    """Read a turn's needs, without a model for the summary if it `gives_up`. Answer `TurnOpened` or `SummaryWanted`."""

    gives_up: bool = False


class Summarise(Struct, frozen=True):
    """Have a model write the wanted part; answer `Summarised`, `SummaryFailed` or `CallWithheld`."""


class PlanRequest(Struct, frozen=True):
    """Plan the next request within this many tokens, None for the budget. Answer `Planned` or `Unplannable`."""

    limit: int | None = None


class Reserve(Struct, frozen=True):
    """Check the budgets and write the request row; answer `BudgetVerdict`."""

    iteration: int
    attempt: int


class Call(Struct, frozen=True):
    """Call the model; answer `Answered`, `CallFailed` or `CallWithheld`."""


class Run(Struct, frozen=True):
    """Run these calls, several at once; answer `CallFinished` for each."""

    call_ids: tuple[int, ...]


class Ask(Struct, frozen=True):
    """Show the approval of this call; answer `Approved` when a person has answered."""

    call_id: int


class StoreOp(Struct, frozen=True):
    """Carry out one operation; answer `OpStored` when it is durable."""

    op: TurnOp


class Sleep(Struct, frozen=True):
    """Answer `TimePassed` at this time."""

    until: int


class AwaitLift(Struct, frozen=True):
    """Wait for the end of a hold; answer `HoldLifted`."""


class Abort(Struct, frozen=True):
    """Cancel everything in flight; answer `TurnCancelled` with this outcome."""

    outcome: Outcome


RequestEffect = Summarise | PlanRequest | Reserve | Call
TurnEffect = Fetch | RequestEffect | Run | Ask | StoreOp | Sleep | AwaitLift | Abort | TurnEnd


def with_uptimes(memories: tuple[Memory, ...], ahead: int) -> tuple[Memory, ...]:
    """Return stored memories with uptimes; `ahead` is `Clock.ahead` when they were stored."""
    return tuple([replace(memory, created_at=memory.created_at - ahead) for memory in memories])
