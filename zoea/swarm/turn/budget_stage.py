"""The verdict on a reservation: go, rest, wait for others, ask the commander, hold the swarm, or end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from zoea.model.enums import Activity
from zoea.swarm import budgets
from zoea.swarm.live_view import LiveMysis
from zoea.swarm.persistence.spend_ops import Reserved
from zoea.swarm.services import Services
from zoea.swarm.turn import turn_types as t

QUEUE_NAME = "the budget of the day"


@dataclass(frozen=True, slots=True)
class BudgetStage:
    """Turns the store's answer into the machine's input, for one turn.

    Attributes:
        proceed: Makes the machine reserve again.
        show: Shows an activity.
        spawn: Runs work beside the turn.
    """

    services: Services
    live: LiveMysis
    turn_id: int
    proceed: Callable[[], None]
    show: Callable[[Activity], None]
    spawn: Callable[[Coroutine[Any, Any, None]], None]

    async def verdict(self, reserved: Reserved) -> t.BudgetVerdict:
        if reserved.is_waiting:
            return self._wait(reserved)
        leave_budget_queue(self.services, self.live)
        now = self.services.clock.now()
        if not reserved.scope:
            rest = now + reserved.rest_us if reserved.rest_us else None
            return t.BudgetVerdict(now, reserved.request_id, rest_until=rest)
        refusal = budgets.exceeded(reserved.scope, reserved.tokens, reserved.limit)
        if reserved.is_asked:
            self.live.say(f"asks: go on? {refusal}", now)
            self.show(Activity.ASKING)
            self.spawn(self._ask())
            return t.BudgetVerdict(now, asked=True)
        if reserved.scope != "swarm":
            return t.BudgetVerdict(now, refused=refusal, stops=reserved.scope == "mysis")
        await self.services.hold_swarm(budgets.spent(reserved.used, reserved.tokens, reserved.limit))
        return t.BudgetVerdict(self.services.clock.now(), held=True)

    def _wait(self, reserved: Reserved) -> t.BudgetVerdict:
        queue = self.services.budget_queue
        queue.wait(self.live.mysis.id, reserved.asked, self.proceed)
        if not reserved.by_others:
            queue.wake_smallest()
        self.live.show_queue(queue.place(self.live.mysis.id), QUEUE_NAME)
        self.show(Activity.WAITING)
        return t.BudgetVerdict(self.services.clock.now(), asked=True)

    async def _ask(self) -> None:
        # The machine reserves again, which reads the answer from its row.
        await self.services.approvals.ask_for_budget(
            self.turn_id, self.live.mysis.id, lambda _answer, _sentence: self.proceed()
        )


def leave_budget_queue(services: Services, live: LiveMysis) -> None:
    """Leave the queue for the budget, where the mysis is in it."""
    services.budget_queue.leave(live.mysis.id)
    if live.queue_name == QUEUE_NAME:
        live.show_queue(0)
