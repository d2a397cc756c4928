"""Events to subscribers: in order, after commit, lagging ones told where to go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from zoea.model.values import Event, Lagged
from zoea.store.store import Store
from zoea.swarm.event_hub import QUEUE, EventHub


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "zoea.db", clock_now=lambda: 1)
    yield opened
    await opened.close()


async def emit(store: Store, count: int) -> None:
    await store.write(lambda conn: [conn.emit("test.fact", None, number=number) for number in range(count)])


async def test_stored_events_come_first_then_those_that_are_committed(store: Store) -> None:
    hub = EventHub(store)
    store.on_events = hub.publish
    await emit(store, 3)
    async with aclosing(hub.listen(1)) as events:
        assert [await anext(events), await anext(events)] == [
            Event(2, "test.fact", None, {"number": 1}, 1),
            Event(3, "test.fact", None, {"number": 2}, 1),
        ]
        later = asyncio.ensure_future(anext(events))
        await emit(store, 1)
        found = await later
        assert isinstance(found, Event)
        assert (found.id, hub.last_id) == (4, 4)


async def test_more_than_a_page_of_stored_events_are_all_read(store: Store) -> None:
    await emit(store, 1200)
    hub = EventHub(store)
    async with aclosing(hub.listen(0)) as events:
        found = [await anext(events) for _ in range(1200)]
    assert [one.id for one in found if isinstance(one, Event)] == list(range(1, 1201))


async def test_events_that_were_read_from_the_table_are_not_given_again(store: Store) -> None:
    hub = EventHub(store)
    store.on_events = hub.publish
    async with aclosing(hub.listen(0)) as events:
        first = asyncio.ensure_future(anext(events))
        await emit(store, 2)
        assert isinstance(await first, Event)
        await emit(store, 1)
        ids = [one.id for one in [await anext(events), await anext(events)] if isinstance(one, Event)]
        assert ids == [2, 3]


async def test_a_subscriber_that_is_too_slow_is_told_where_to_go_on(store: Store) -> None:
    hub = EventHub(store)
    store.on_events = hub.publish
    await emit(store, 1)
    async with aclosing(hub.listen(0)) as events:
        assert isinstance(await anext(events), Event)
        for _ in range(3):
            await emit(store, QUEUE // 2)
        await emit(store, 1)
        assert await anext(events) == Lagged(1)
        after = await anext(events)
        assert isinstance(after, Event)
        assert after.id > 1


async def test_nothing_published_changes_nothing(store: Store) -> None:
    hub = EventHub(store)
    hub.publish([])
    assert hub.last_id == 0
