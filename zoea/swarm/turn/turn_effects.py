"""What an open turn has done: the effects of the turn machine. Times are µs UTC."""

from __future__ import annotations

from msgspec import Struct

from zoea.model.enums import Outcome
from zoea.swarm.turn.turn_state import TurnEnd
from zoea.swarm.turn.turn_writes import TurnOp


class Fetch(Struct, frozen=True):
    """Read a turn's needs, without a model for the summary if it `gives_up`; answer `TurnOpened` or `SummaryWanted`."""

    gives_up: bool = False


class Summarise(Struct, frozen=True):
    """Have a model write the wanted part; answer `Summarised`, `SummaryFailed` or `CallWithheld`."""


class PlanRequest(Struct, frozen=True):
    """Plan the next request within this many tokens, None for the budget; answer `Planned` or `Unplannable`."""

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
