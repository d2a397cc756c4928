"""Values of the turn machine: state, inputs, effects, and write operations. Times are µs UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from zoea.context import Note
from zoea.context.topics.output_check import OutputCheck
from zoea.model.enums import ApprovalAnswer, CallState, ErrorClass, Finish, Outcome
from zoea.model.request import Answer, ToolResult
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


@dataclass(frozen=True, slots=True)
class PastCall:
    """A call of the previous turn, for the loop guard."""

    name: str
    fingerprint: bytes
    result_fingerprint: bytes | None


@dataclass(frozen=True, slots=True)
class PastRequest:
    """A request of this turn without an answer: failed, empty, cut off, or never sent."""

    attempt: int
    error_class: ErrorClass | None
    was_empty: bool


@dataclass(frozen=True)
class TurnState:
    """The state of an open turn. It has no slots, because `fast_replace` copies a dictionary faster.

    Attributes:
        memories: Those of the turn, in conversation order.
        running: Ids of calls in flight.
        asked: Ids of calls with an approval asked in this process.
        read_only: Names of tools that may overlap.
        shrink: Share of the budget that the next plan may use.
        responded: The model gave text or calls.
        held: A hold was on when the machine last heard of it.
        known_ticks: The newest tick that each upstream told before the turn.
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
    shrink: float = 1.0
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
    resumed_at: int | None = None
    end: TurnEnd | None = None


# Inputs.


@dataclass(frozen=True, slots=True)
class TurnOpened:
    """The turn can begin or continue: its needs are read.

    `calls` and `texts` are those of the previous turn, for the loop guard.
    """

    at: int
    calls: tuple[PastCall, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SummaryWanted:
    """The turn cannot be planned before a model has written a part of its summary."""

    at: int


@dataclass(frozen=True, slots=True)
class Summarised:
    """A part of the summary is written and stored."""

    at: int


@dataclass(frozen=True, slots=True)
class SummaryFailed:
    """The model wrote no part."""

    at: int
    can_retry: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    at: int


@dataclass(frozen=True, slots=True)
class Unplannable:
    """The required parts of the request do not fit."""

    at: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class BudgetVerdict:
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
    stops: bool = False


@dataclass(frozen=True, slots=True)
class PreparedCall:
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
    skipped: str = ""

    @property
    def can_run(self) -> bool:
        return self.known and not self.broken and not self.asks and not self.skipped


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer of the model; `output` is its check where its role has an output schema."""

    at: int
    answer: Answer
    calls: tuple[PreparedCall, ...] = ()
    output: OutputCheck | None = None


@dataclass(frozen=True, slots=True)
class CallFailed:
    """The request failed. `retry_after` is in seconds, `jitter` in [0, 1), `partial` the streamed part.

    `cause` is a word or two: `429`, `timeout`.
    """

    at: int
    failure: Failure
    error_class: ErrorClass
    retry_after: float | None = None
    jitter: float = 0.0
    usage: Usage = field(default_factory=Usage)
    partial: Answer | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True)
class OpStored:
    """The op is durable: new `memories`, changed `calls`, and `taken` deliveries."""

    at: int
    memories: tuple[Memory, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    notes: tuple[Note, ...] = ()
    taken: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CallFinished:
    at: int
    call_id: int
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Approved:
    at: int
    call_id: int
    answer: ApprovalAnswer
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Steered:
    """Messages that join the next request."""

    at: int
    deliveries: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HoldChanged:
    """A hold began or ended. Calls in flight continue."""

    at: int
    on: bool


@dataclass(frozen=True, slots=True)
class HoldLifted:
    """No hold is on: continue."""

    at: int


@dataclass(frozen=True, slots=True)
class CallWithheld:
    """A hold began while the provider delayed the request; it was not sent."""

    at: int


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The time, and when the turn last made progress or had an excuse."""

    at: int
    progress_at: int = 0


@dataclass(frozen=True, slots=True)
class ClockJumped:
    """The wall clock was set by this many µs; every time of the turn moves by as much."""

    delta: int


@dataclass(frozen=True, slots=True)
class TurnCancelled:
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


# Write operations; each is stored whole or not at all.


@dataclass(frozen=True, slots=True)
class StoreAnswer:
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


@dataclass(frozen=True, slots=True)
class StoreResult:
    """Store the result of a call at its reserved place; `state` is how the call ended.

    `repeats` are the ids and places of identical calls that it was run once for.
    """

    turn_id: int
    call_id: int
    seq: int
    result: ToolResult
    state: CallState
    repeats: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class MarkSent:
    """Mark these calls as sent."""

    call_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TakeSteers:
    """Add deliveries to the turn as prompts, as many as fit."""

    turn_id: int
    delivery_ids: tuple[int, ...]
    seq: int


@dataclass(frozen=True, slots=True)
class StoreNote:
    """Store a note of Zoea to the model, after the memory with `after_seq`."""

    turn_id: int
    after_seq: int
    kind: str
    content: str


@dataclass(frozen=True, slots=True)
class SettleRequest:
    """Settle a request with an empty answer."""

    request_id: int
    usage: Usage
    finish: Finish


@dataclass(frozen=True, slots=True)
class RetryNote:
    """A retry, as people see it: the next attempt of so many, after a rest in µs, and why."""

    turn_id: int
    after_seq: int
    attempt: int
    attempts: int
    rest: int
    cause: str
    what: str


@dataclass(frozen=True, slots=True)
class FailRequest:
    """Release the reservation of a request without an answer, except for its usage; note a retry."""

    request_id: int
    error_class: ErrorClass
    usage: Usage
    retry: RetryNote | None = None


@dataclass(frozen=True, slots=True)
class LeaveTurn:
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
    usage: Usage = field(default_factory=Usage)
    end: TurnEnd | None = None


@dataclass(frozen=True, slots=True)
class CloseTurn(LeaveTurn):
    """End the turn for good: every call has its result."""


@dataclass(frozen=True, slots=True)
class BreakOffTurn(LeaveTurn):
    """Leave the turn open; calls keep their states."""


@dataclass(frozen=True, slots=True)
class ResumeTurn:
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


@dataclass(frozen=True, slots=True)
class Fetch:
    """Read a turn's needs, without a model for the summary if it `gives_up`; answer `TurnOpened` or `SummaryWanted`."""

    gives_up: bool = False


@dataclass(frozen=True, slots=True)
class Summarise:
    """Have a model write the wanted part; answer `Summarised`, `SummaryFailed` or `CallWithheld`."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Plan the next request at this share of the budget; answer `Planned` or `Unplannable`."""

    shrink: float = 1.0


@dataclass(frozen=True, slots=True)
class Reserve:
    """Check the budgets and write the request row; answer `BudgetVerdict`."""

    iteration: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Call:
    """Call the model; answer `Answered`, `CallFailed` or `CallWithheld`."""


@dataclass(frozen=True, slots=True)
class Run:
    """Run these calls, several at once; answer `CallFinished` for each."""

    call_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Show the approval of this call; answer `Approved` when a person has answered."""

    call_id: int


@dataclass(frozen=True, slots=True)
class StoreOp:
    """Carry out one operation; answer `OpStored` when it is durable."""

    op: TurnOp


@dataclass(frozen=True, slots=True)
class Sleep:
    """Answer `TimePassed` at this time."""

    until: int


@dataclass(frozen=True, slots=True)
class AwaitLift:
    """Wait for the end of a hold; answer `HoldLifted`."""


@dataclass(frozen=True, slots=True)
class Abort:
    """Cancel everything in flight; answer `TurnCancelled` with this outcome."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class TurnEnd:
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


RequestEffect = Summarise | PlanRequest | Reserve | Call
TurnEffect = Fetch | RequestEffect | Run | Ask | StoreOp | Sleep | AwaitLift | Abort | TurnEnd
