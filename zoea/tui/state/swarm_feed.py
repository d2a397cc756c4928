"""The cockpit's copy of the swarm, kept current by its changes and events.

Widgets read it instead of asking the swarm, so that a slow swarm delays no key.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from zoea.model.enums import MysisState
from zoea.model.errors import NoRunningSwarm
from zoea.model.status import CLOSED, KILLED, StatusWord
from zoea.model.values import Event, Lagged, MysisView, SwarmView, UpstreamFault
from zoea.process.clock import read_wall_time
from zoea.queries.status_phrases import finishes_call
from zoea.tui.swarm_list import attention
from zoea.tui.swarm_list.mysis_row import find_status_time

if TYPE_CHECKING:
    from zoea.model.swarm_api import SwarmApi


class Roster:
    """The myses by id; read-only for others.

    `ended` counts those that had work to do when Zoea ended, by the state reason; `finishing` those whose call under
    way ends in spite of a hold.

    Args:
        now: Returns the time in µs.
    """

    def __init__(self, now: Callable[[], int] = read_wall_time) -> None:
        self._now = now
        self._since: dict[int, int] = {}
        self.finishing = 0
        self.myses: dict[int, MysisView] = {}
        self.running = 0
        self.ended: Counter[str] = Counter()
        self.statuses: Counter[StatusWord] = Counter()
        self._order: list[int] | None = []
        self._needing: dict[int, MysisView] = {}
        self._in_need: tuple[MysisView, ...] | None = ()

    def take(self, changed: Iterable[MysisView], removed: Iterable[int] = ()) -> None:
        """Merge changed rows, and remove those that went."""
        for view in changed:
            before = self.myses.get(view.id)
            if before is None:
                self._order = None
            else:
                self._count(before, -1)
            if before is None or before.status is not view.status:
                # When a status that was there already began is not known: not after the last progress.
                self._since[view.id] = find_status_time(view) if before is None else self._now()
            self.myses[view.id] = view
            self._count(view, 1)
            if attention.attention_reason(view):
                self._needing[view.id] = view
                self._in_need = None
            elif self._needing.pop(view.id, None) is not None:
                self._in_need = None
        for mysis_id in removed:
            self._since.pop(mysis_id, None)
            gone = self.myses.pop(mysis_id, None)
            if gone is not None:
                self._count(gone, -1)
                self._order = None
                if self._needing.pop(mysis_id, None) is not None:
                    self._in_need = None

    def clear(self) -> None:
        self.take((), tuple(self.myses))

    def since(self, mysis_id: int) -> int:
        """Return when a mysis got its status, in µs; 0 for an unknown mysis."""
        return self._since.get(mysis_id, 0)

    def _count(self, view: MysisView, by: int) -> None:
        self.statuses[view.status] += by
        if view.state is MysisState.RUNNING:
            self.running += by
            self.finishing += by if finishes_call(view) else 0
        elif view.state is MysisState.IDLE and view.state_reason in (CLOSED, KILLED):
            self.ended[view.state_reason] += by

    @property
    def in_need(self) -> tuple[MysisView, ...]:
        """The myses that need a person, the most urgent first, else by creation."""
        if self._in_need is None:
            self._in_need = tuple(attention.list_needing_attention(self._needing.values()))
        return self._in_need

    def in_order(self) -> list[MysisView]:
        """Return all myses in the order of their creation."""
        if self._order is None:
            self._order = sorted(self.myses)
        return [self.myses[mysis_id] for mysis_id in self._order]


SPARK_SECONDS = 5
SPARK_POINTS = 24
AGAIN_S = 1.0
KEYS_S = 0.2
"""Seconds that changed rows wait at most for the effects of keys."""
LOOK_S = 0.01


class SwarmFeed:
    """Follows one swarm. Then `myses`, `view` and `rate` are at most 50 ms old, or 250 ms beside keys.

    Args:
        changed: Called with the ids of rows that changed or went.
        happened: Called with each event, in order.
        failed: Called with unexpected errors of the swarm or of the callbacks; the feed goes on.
        now: Returns the time in µs.
        has_keys: Whether a key has effects to come, which are shown before the rows that changed.
    """

    def __init__(
        self,
        changed: Callable[[frozenset[int]], None],
        happened: Callable[[Event], None],
        failed: Callable[[Exception], None],
        now: Callable[[], int] = read_wall_time,
        has_keys: Callable[[], bool] = bool,
    ) -> None:
        self.roster = Roster(now)
        self._has_keys = has_keys
        self.view: SwarmView | None = None
        self.first: dict[int, MysisView] = {}
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

    @property
    def faults(self) -> tuple[UpstreamFault, ...]:
        """The upstreams without connection."""
        return self.view.faults if self.view is not None else ()

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
            for _ in range(round(KEYS_S / LOOK_S)):
                if not self._has_keys():
                    break
                await asyncio.sleep(LOOK_S)
            self.take(view)

    def take(self, view: SwarmView) -> None:
        """Merge a change. The first one has every mysis: stored rows that are not in it went."""
        removed = view.removed
        if self.view is None:
            removed += tuple(self.roster.myses.keys() - {mysis.id for mysis in view.myses})
            self.first = self.first or {mysis.id: mysis for mysis in view.myses}
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
