"""The values of the turn machine: its state, what comes in, what goes out, what it stores.

Apart from `turn.py` so that the rules there read in one go. All times are µs UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from zoea.context import Note
from zoea.model.enums import ApprovalAnswer, CallState, ErrorClass, Finish, Outcome
from zoea.model.request import Answer, ToolResult
from zoea.model.values import Failure, Memory, ToolCall, Usage
from zoea.swarm.rules import TurnRules, WaitRules


class TurnPhase(StrEnum):
    OPENING = "opening"
    PLANNING = "planning"
    RESERVING = "reserving"
    RESTING = "resting"
    HELD = "held"
    CALLING = "calling"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"


class NextStep(StrEnum):
    """What follows when the store has acknowledged, or a rest is over."""

    NOTHING = "nothing"
    FETCH = "fetch"
    REQUEST = "request"
    RESERVE = "reserve"
    REST = "rest"
    CALL = "call"
    RUN = "run"
    RUN_STARTED = "run_started"
    END = "end"


@dataclass(frozen=True, slots=True)
class PastCall:
    """A call of the turn before, for the loop guard."""

    name: str
    fingerprint: bytes
    result_fingerprint: bytes | None


@dataclass(frozen=True, slots=True)
class PastRequest:
    """A request of this turn that gave no answer: it failed, was answered with nothing, was cut off, or never left."""

    attempt: int
    error_class: ErrorClass | None
    was_empty: bool


@dataclass(frozen=True, slots=True)
class TurnState:
    """Where an open turn stands.

    `memories` are its own, in conversation order. `running` are call ids in
    flight, `asked` those whose approval was asked in this process. `read_only`
    names the tools that may overlap. `shrink` is the share of the budget that
    the next plan may use. `responded` says that the model gave text or calls.
    `held` says that a hold was on when last heard of.
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
    end: TurnEnd | None = None


# What comes in.


@dataclass(frozen=True, slots=True)
class TurnOpened:
    """The turn can begin, or go on: what it needs from before it was read.

    `calls` and `texts` are those of the turn before, for the loop guard.
    """

    at: int
    calls: tuple[PastCall, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Planned:
    at: int


@dataclass(frozen=True, slots=True)
class Unplannable:
    """What must be in the request cannot fit."""

    at: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class BudgetVerdict:
    """What the budgets say: go, rest until a time first, or refused with the reason.

    Where they put the swarm on hold (`held`) or a person is asked (`asked`: a `TimePassed` says that
    there is an answer), they are asked again afterwards.
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
    """A call as it will be stored. `broken` and `known` decide whether it can run at all."""

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

    @property
    def can_run(self) -> bool:
        return self.known and not self.broken and not self.asks


@dataclass(frozen=True, slots=True)
class Answered:
    """The model's answer, and its calls as they will be stored."""

    at: int
    answer: Answer
    calls: tuple[PreparedCall, ...] = ()


@dataclass(frozen=True, slots=True)
class CallFailed:
    """`retry_after` in seconds; `jitter` in [0, 1); `partial` is what had been streamed."""

    at: int
    failure: Failure
    error_class: ErrorClass
    retry_after: float | None = None
    jitter: float = 0.0
    usage: Usage = field(default_factory=Usage)
    partial: Answer | None = None


@dataclass(frozen=True, slots=True)
class OpStored:
    """The store acknowledged; `memories` are new rows, `calls` changed ones, `taken` deliveries that joined."""

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
    """Messages that are to join the next request."""

    at: int
    deliveries: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HoldChanged:
    """A hold is on, or no more: told before anything else. What is in flight goes on."""

    at: int
    on: bool


@dataclass(frozen=True, slots=True)
class HoldLifted:
    """No hold is on any more: go on where it was."""

    at: int


@dataclass(frozen=True, slots=True)
class CallWithheld:
    """The request that was to be sent waited for its provider when a hold came: it never left."""

    at: int


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The time. `progress_at` is when something came of the turn last, or what it waits for excused it."""

    at: int
    progress_at: int = 0


@dataclass(frozen=True, slots=True)
class TurnCancelled:
    """Everything in flight was cancelled; what it had given by then comes along. `unsent`: the request never left."""

    at: int
    outcome: Outcome
    partial: Answer | None = None
    finished: tuple[CallFinished, ...] = ()
    unsent: bool = False


TurnInput = (
    TurnOpened
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


# What is stored: each is one operation, all of it or nothing.


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """The answer, its calls and the request's usage; `start` are positions that are sent at once.

    Where `outcome` says that the turn is over, `end` says what its mysis hears of it.
    """

    turn_id: int
    request_id: int
    seq: int
    answer: Answer
    calls: tuple[PreparedCall, ...] = ()
    start: tuple[int, ...] = ()
    outcome: Outcome | None = None
    end: TurnEnd | None = None


@dataclass(frozen=True, slots=True)
class StoreResult:
    """What a call gave, in the place that was reserved for it; `state` is how the call ended."""

    turn_id: int
    call_id: int
    seq: int
    result: ToolResult
    state: CallState


@dataclass(frozen=True, slots=True)
class MarkSent:
    """These calls go out now."""

    call_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TakeSteers:
    """Deliveries join the turn as its next prompts, as many as it has room for."""

    turn_id: int
    delivery_ids: tuple[int, ...]
    seq: int


@dataclass(frozen=True, slots=True)
class StoreNote:
    """What Zoea says to the model, right after the memory with `after_seq`."""

    turn_id: int
    after_seq: int
    kind: str
    content: str


@dataclass(frozen=True, slots=True)
class SettleRequest:
    """A request that gave nothing worth storing still cost something."""

    request_id: int
    usage: Usage
    finish: Finish


@dataclass(frozen=True, slots=True)
class FailRequest:
    """A request that gave no answer; its reservation is given back but for what it used."""

    request_id: int
    error_class: ErrorClass
    usage: Usage


@dataclass(frozen=True, slots=True)
class LeaveTurn:
    """What is stored where a turn stops without an answer.

    `request_id` is one that gave no answer, 0 if none: it failed with `error_class`,
    is still in flight where that is None, or is `unsent` if it never left. `end` is
    what the mysis hears of it: what that makes of its state is stored in the same op.
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
    """End the turn for good: every call of it has its result."""


@dataclass(frozen=True, slots=True)
class BreakOffTurn(LeaveTurn):
    """Leave the turn open for later; calls keep the state they have."""


@dataclass(frozen=True, slots=True)
class ResumeTurn:
    """Go on with a turn that broke off: open calls get their results, the attempt grows."""

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


# What goes out.


@dataclass(frozen=True, slots=True)
class Fetch:
    """Read what a restored turn needs from before it, in one read; answer `TurnOpened`."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Plan the next request at this share of the budget; answer `Planned` or `Unplannable`."""

    shrink: float = 1.0


@dataclass(frozen=True, slots=True)
class Reserve:
    """Ask the budgets and write the request row; answer `BudgetVerdict`."""

    iteration: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Call:
    """Call the model; answer `Answered` or `CallFailed` when it is done, or `CallWithheld`."""


@dataclass(frozen=True, slots=True)
class Run:
    """Run these calls, several of them at once; answer `CallFinished` for each."""

    call_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Show the approval of this call; answer `Approved` when a person has."""

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
    """Something that would begin now is kept back by a hold; answer `HoldLifted` once none is on."""


@dataclass(frozen=True, slots=True)
class Abort:
    """Cancel everything in flight; answer `TurnCancelled` with this outcome."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The turn is over, or broke off. The fields are those of `life.TurnEnded`; a tick is in µs, 0 where unknown."""

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


TurnEffect = Fetch | PlanRequest | Reserve | Call | Run | Ask | StoreOp | Sleep | AwaitLift | Abort | TurnEnd
