"""The swarm as the cockpit knows it: the newest view, kept by changes, and events as they come.

Widgets read `Feed` and are told what changed by two messages; they never ask the
swarm themselves, so a slow swarm never holds up a key.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
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


class Feed:
    """Call `follow` once; then `myses`, `view` and `rate` are current within 50 ms.

    Args:
        changed: Told the ids of rows that changed or went.
        happened: Told each event once, in order.
        failed: Told what either of them, or the swarm, raised; the feed goes on.
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

    @property
    def myses(self) -> dict[int, MysisView]:
        return self.roster.myses

    async def follow(self, api: SwarmApi) -> None:
        """Read changes and events until cancelled; a swarm that ends is said, not raised.

        Anything else that goes wrong is given to `failed`, and reading begins again.
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
                except* Exception as broken:  # noqa: BLE001  a defect elsewhere ends no feed
                    self._failed(broken.exceptions[0])
                    await asyncio.sleep(AGAIN_S)

    def forget(self) -> None:
        """Know nothing again: another swarm, or the same one opened anew, is followed next."""
        self.roster.clear()
        self._spent.clear()
        self._last_tokens.clear()
        self._rate = 0
        self.view = None
        self.lost = ""

    async def _follow_changes(self, api: SwarmApi) -> None:
        async for view in api.changes():
            self.take(view)

    def take(self, view: SwarmView) -> None:
        """Merge what changed."""
        self.view = view
        self.roster.take(view.myses, view.removed)
        for mysis in view.myses:
            self._last_tokens.setdefault(mysis.id, mysis.tokens)
        for gone in view.removed:
            self._spent.pop(gone, None)
            self._last_tokens.pop(gone, None)
        self._changed(frozenset(mysis.id for mysis in view.myses) | frozenset(view.removed))

    async def _follow_events(self, api: SwarmApi) -> None:
        last = (await api.view()).event_id
        while True:
            async for item in api.events(last):
                if isinstance(item, Lagged):
                    break
                last = item.id
                self._happened(item)

    async def _measure(self) -> None:
        """Tokens spent in each five seconds, per mysis: what sparklines and rates are drawn from."""
        while True:
            await asyncio.sleep(SPARK_SECONDS)
            self.tick()

    def tick(self) -> None:
        """Close one measuring interval."""
        for mysis in self.myses.values():
            points = self._spent.setdefault(mysis.id, deque(maxlen=SPARK_POINTS))
            points.append(mysis.tokens - self._last_tokens.get(mysis.id, mysis.tokens))
            self._last_tokens[mysis.id] = mysis.tokens
        self._rate = sum(map(self.rate, self._spent))

    def spark(self, mysis_id: int) -> list[int]:
        return list(self._spent.get(mysis_id, ()))

    def rate(self, mysis_id: int | None = None) -> int:
        """Tokens a minute over the last minute, of one mysis or of all."""
        if mysis_id is None:
            return self._rate
        last_minute = 60 // SPARK_SECONDS
        return sum(list(self._spent.get(mysis_id, ()))[-last_minute:])

    def in_order(self) -> list[MysisView]:
        """Rows as they were created: they keep their place."""
        return self.roster.in_order()
