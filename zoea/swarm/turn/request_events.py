"""What listeners hear of each request: its size before it is sent, and the budget that it used.

No rows hold these events, because the rows of requests hold their numbers.
"""

from __future__ import annotations

from msgspec import Struct

from zoea.context import Plan
from zoea.model.values import Event
from zoea.swarm.services import Services


class RequestEvents(Struct, frozen=True):
    """Tells of the requests of one turn."""

    services: Services
    mysis_id: int
    turn_id: int

    def tell_prepared(self, request_id: int, plan: Plan) -> None:
        self._tell("request.prepared", request=request_id, messages=len(plan.messages), tokens=plan.budget.final_tokens)

    def tell_used(self, request_id: int, used: int, limit: int, turn_used: int, turn_limit: int) -> None:
        """Tell what a settled request used of its budget, and all of its turn together."""
        self._tell("budget.used", request=request_id, scope="request", used=used, limit=limit)
        self._tell("budget.used", request=request_id, scope="turn", used=turn_used, limit=turn_limit)

    def _tell(self, kind: str, **data: int | str) -> None:
        events = self.services.events
        if events.is_heard:
            events.tell(Event(0, kind, self.mysis_id, {"turn": self.turn_id, **data}, self.services.clock.now()))
