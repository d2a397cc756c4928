"""Decides what a turn does after its budget was reserved or refused."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct

from zoea.model.enums import Activity
from zoea.swarm import budgets
from zoea.swarm.live_view import LiveMysis
from zoea.swarm.persistence.spend_ops import Reserved
from zoea.swarm.services import Services
from zoea.swarm.turn import turn_types as t

QUEUE_NAME = "the budget of the day"
MISSION_QUEUE_NAME = "the budget of its message"


class BudgetStage(Struct, frozen=True):
    """Turns the store's answer into the machine's input, for one turn.

    Attributes:
        proceed: Makes the machine reserve again.
        show: Shows an activity.
        spawn: Runs work beside the turn.
        is_current: Whether the budgets are still those that were reserved under.
    """

    services: Services
    live: LiveMysis
    model: str
    turn_id: int
    proceed: Callable[[], None]
    show: Callable[[Activity], None]
    spawn: Callable[[Coroutine[Any, Any, None]], None]
    is_current: Callable[[], bool]

    async def verdict(self, reserved: Reserved) -> t.BudgetVerdict:
        if reserved.is_waiting:
            return self._wait(reserved)
        leave_budget_queue(self.services, self.live)
        now = self.services.clock.uptime()
        if not reserved.scope:
            rest = now + reserved.rest_us if reserved.rest_us else None
            return t.BudgetVerdict(now, reserved.request_id, rest_until=rest)
        is_money = reserved.is_money
        refusal = budgets.describe_excess(
            reserved.scope,
            reserved.tokens,
            reserved.limit,
            None if reserved.is_asked else reserved.used,
            is_money=is_money,
        )
        if reserved.is_unpriced:
            refusal = budgets.describe_missing_price(reserved.scope, self.model)
            return t.BudgetVerdict(now, refused=refusal, stops=True)
        if reserved.is_asked:
            self.live.say(f"asks: go on? {refusal}", self.services.clock.now())
            self.show(Activity.ASKING)
            self.spawn(self._ask())
            return t.BudgetVerdict(now, asked=True)
        if reserved.scope != "swarm":
            hint = budgets.advise_after_refusal(reserved.scope, is_money=is_money)
            return t.BudgetVerdict(now, refused=refusal, hint=hint, stops=reserved.scope == "mysis")
        await self.services.hold_swarm(
            budgets.describe_spent_day(reserved.used, reserved.tokens, reserved.limit, is_money=is_money)
        )
        return t.BudgetVerdict(self.services.clock.uptime(), held=True)

    def _wait(self, reserved: Reserved) -> t.BudgetVerdict:
        queue = self.services.budget_queue
        queue.wait(self.live.mysis.id, reserved.asked, self.proceed)
        if not reserved.by_others:
            queue.wake_smallest()
        name = QUEUE_NAME if reserved.scope == "swarm" else MISSION_QUEUE_NAME
        self.live.show_queue(queue.place(self.live.mysis.id), name)
        self.show(Activity.WAITING)
        return t.BudgetVerdict(self.services.clock.uptime(), asked=True)

    async def _ask(self) -> None:
        if not self.is_current():
            self.proceed()  # a budget was changed before its question could be answered so
            return
        # The machine reserves again, which reads the answer from its row.
        await self.services.approvals.ask_for_budget(self.turn_id, self.live.mysis.id, lambda _given: self.proceed())


def leave_budget_queue(services: Services, live: LiveMysis) -> None:
    """Leave the queue for the budget, where the mysis is in it."""
    services.budget_queue.leave(live.mysis.id)
    if live.queue_name in (QUEUE_NAME, MISSION_QUEUE_NAME):
        live.show_queue(0)


def spent_by(op: t.TurnOp, estimated: int) -> int:
    """Return the tokens that an op settles; unreported usage counts as estimated."""
    match op:
        case t.StoreAnswer():
            usage = op.answer.usage
        case t.SettleRequest():
            usage = op.usage
        case _:
            return 0
    return usage.total if usage.total is not None else estimated
