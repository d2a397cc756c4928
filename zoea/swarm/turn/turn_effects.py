"""What an open turn has done: the effects of the turn machine. Times are µs UTC."""

from __future__ import annotations

from dataclasses import dataclass

from zoea.model.enums import Outcome
from zoea.swarm.turn.turn_state import TurnEnd
from zoea.swarm.turn.turn_writes import TurnOp


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


RequestEffect = Summarise | PlanRequest | Reserve | Call
TurnEffect = Fetch | RequestEffect | Run | Ask | StoreOp | Sleep | AwaitLift | Abort | TurnEnd
