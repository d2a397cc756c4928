"""The state of an open turn, and the report of its end. Times are µs UTC."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from zoea.context import Note
from zoea.model.enums import ErrorClass, Outcome
from zoea.model.request import Answer
from zoea.model.values import Failure, Memory
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
