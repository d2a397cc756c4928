"""The cockpit's copy of the swarm, kept current by its changes and events.

Widgets read it instead of asking the swarm, so that a slow swarm delays no key.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from zoea.model.errors import NoRunningSwarm
from zoea.model.values import Event, Lagged, MysisView, SwarmView
from zoea.tui.state.roster import Roster

if TYPE_CHECKING:
    from zoea.model.swarm_api import SwarmApi

SPARK_SECONDS = 5
SPARK_POINTS = 24
AGAIN_S = 1.0


class SwarmFeed:
    """Follows one swarm; `myses`, `view` and `rate` are at most 50 ms old then.

    Args:
        changed: Called with the ids of rows that changed or went.
        happened: Called with each event, in order.
        failed: Called with unexpected errors of the swarm or of the callbacks; the feed goes on.
    """

    def __init__(
        self,
        changed: Callable[[frozenset[int]], None],
        happened: Callable[[Event], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.roster = Roster()
        self.view: SwarmView | None = None
        self.lost: str = ""
        self._changed = changed
        self._happened = happened
        self._failed = failed
        self._spent: dict[int, deque[int]] = {}
        self._last_tokens: dict[int, int] = {}
        self._rate = 0
        self.highest_rate = 0

    @property
    def myses(self) -> dict[int, MysisView]:
        return self.roster.myses

    async def follow(self, api: SwarmApi) -> None:
        """Read changes and events until cancelled, or until the swarm ends, which sets `lost`.

        After any other error reading starts again.
        """
        with suppress(asyncio.CancelledError):
            while not self.lost:
                try:
                    async with asyncio.TaskGroup() as group:
                        group.create_task(self._follow_changes(api))
                        group.create_task(self._follow_events(api))
                        group.create_task(self._measure())
                except* NoRunningSwarm as ended:
                    self.lost = str(ended.exceptions[0])
                    self._changed(frozenset())
                except* Exception as broken:  # noqa: BLE001  a defect elsewhere must not end the feed
                    self._failed(broken.exceptions[0])
                    await asyncio.sleep(AGAIN_S)

    def forget(self) -> None:
        """Remove everything, before another swarm is followed."""
        self.roster.clear()
        self._spent.clear()
        self._last_tokens.clear()
        self._rate = self.highest_rate = 0
        self.view = None
        self.lost = ""

    def show_stored(self, view: SwarmView) -> None:
        """Show stored rows until the swarm is open; `view` stays None."""
        self.roster.take(view.myses)
        self._changed(frozenset())

    async def _follow_changes(self, api: SwarmApi) -> None:
        async for view in api.changes():
            self.take(view)

    def take(self, view: SwarmView) -> None:
        """Merge a change. The first one has every mysis: stored rows that are not in it went."""
        removed = view.removed
        if self.view is None:
            removed += tuple(self.roster.myses.keys() - {mysis.id for mysis in view.myses})
        self.view = view
        self.roster.take(view.myses, removed)
        for mysis in view.myses:
            self._last_tokens.setdefault(mysis.id, mysis.tokens)
        for gone in removed:
            self._spent.pop(gone, None)
            self._last_tokens.pop(gone, None)
        self._changed(frozenset(mysis.id for mysis in view.myses) | frozenset(removed))

    async def _follow_events(self, api: SwarmApi) -> None:
        last = (await api.view()).event_id
        while True:
            async for item in api.events(last):
                if isinstance(item, Lagged):
                    break
                last = item.id or last
                self._happened(item)

    async def _measure(self) -> None:
        """Measure the tokens of each five seconds per mysis, for sparklines and rates."""
        while True:
            await asyncio.sleep(SPARK_SECONDS)
            self.tick()

    def tick(self) -> None:
        """End one measuring interval."""
        living = self.myses.values()
        self.add_spent({view.id: view.tokens - self._last_tokens.get(view.id, view.tokens) for view in living})
        self._last_tokens |= {view.id: view.tokens for view in living}

    def add_spent(self, tokens: Mapping[int, int]) -> None:
        """Add the tokens of one interval by mysis."""
        for mysis_id, spent in tokens.items():
            self._spent.setdefault(mysis_id, deque(maxlen=SPARK_POINTS)).append(spent)
        rates = [self.rate(each) for each in self._spent]
        self._rate, self.highest_rate = sum(rates), max(rates, default=0)

    def spark(self, mysis_id: int) -> list[int]:
        return list(self._spent.get(mysis_id, ()))

    def rate(self, mysis_id: int | None = None) -> int:
        """Return the tokens of the last minute, of one mysis or of all."""
        if mysis_id is None:
            return self._rate
        last_minute = 60 // SPARK_SECONDS
        return sum(list(self._spent.get(mysis_id, ()))[-last_minute:])

    def in_order(self) -> list[MysisView]:
        """Return the rows in the order of their creation."""
        return self.roster.in_order()
