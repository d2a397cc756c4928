"""Publishes events to subscribers in order, after commit, without delaying the swarm.

The queue of a subscriber holds 1,000 events; when full it becomes `Lagged`, and the reader
continues from the table.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

from zoea.model.values import Event, Lagged
from zoea.store.store import Store
from zoea.swarm.persistence import row_values, swarm_reads

QUEUE = 1000
_PAGE = 500


class EventHub:
    """Takes events from the store and passes them to subscribers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._subscribers: set[_EventQueue] = set()
        self.last_id = 0

    def publish(self, events: list[Event]) -> None:
        """Pass on the events of a commit; called on the loop."""
        self.last_id = max(self.last_id, events[-1].id) if events else self.last_id
        for subscriber in self._subscribers:
            subscriber.give(events)

    @property
    def is_heard(self) -> bool:
        """Whether anyone listens now."""
        return bool(self._subscribers)

    def tell(self, event: Event) -> None:
        """Pass an event that no row holds (id 0) to those who listen now. None that come later get it."""
        for subscriber in self._subscribers:
            subscriber.give([event])

    async def listen(self, after: int) -> AsyncGenerator[Event | Lagged, None]:
        """Yield stored events after the given id, then new ones as they are committed."""
        subscriber = _EventQueue()
        self._subscribers.add(subscriber)
        try:
            last = after
            async for event in self._stored(after):
                last = event.id
                yield event
            while True:
                for item in await subscriber.take():
                    if isinstance(item, Lagged):
                        yield Lagged(last)
                    elif item.id > last or not item.id:
                        last = max(last, item.id)
                        yield item
        finally:
            self._subscribers.discard(subscriber)

    async def _stored(self, after: int) -> AsyncGenerator[Event, None]:
        while True:
            page = await self._store.read(swarm_reads.EVENTS_AFTER, (after, _PAGE))
            for row in page:
                after = row["id"]
                yield row_values.event(row)
            if len(page) < _PAGE:
                return


class _EventQueue:
    def __init__(self) -> None:
        self._queue: deque[Event | Lagged] = deque()
        self._woken = asyncio.Event()

    def give(self, events: list[Event]) -> None:
        if len(self._queue) + len(events) > QUEUE:
            # Dropped events are in the table; `Lagged` tells the reader to continue there.
            self._queue.clear()
            self._queue.append(Lagged(0))
        else:
            self._queue.extend(events)
        self._woken.set()

    async def take(self) -> list[Event | Lagged]:
        await self._woken.wait()
        self._woken.clear()
        items = list(self._queue)
        self._queue.clear()
        return items
