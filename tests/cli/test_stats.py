"""`zoea stats`: numbers of the last hour, day and week."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.cli.conftest import Zoea
from zoea.process.clock import SystemClock
from zoea.settings.paths import places
from zoea.store.store import Store
from zoea.swarm.persistence.stat_ops import store_minute


async def _store_one(database: Path) -> None:
    store = await Store.open(database, clock_now=SystemClock().now)
    try:
        await store.write(lambda conn: store_minute(conn, {"working": 2, "asking": 1}))
    finally:
        await store.close()


def test_the_numbers_of_a_span_are_shown_and_written_as_json(zoea: Zoea) -> None:
    where = places(configured=False)
    where.make_data()
    asyncio.run(_store_one(where.database))
    said = zoea("stats")
    assert said.out.startswith("last hour: 0 tokens, $0.00, turns: none\n")
    assert "2 working, 1 asking" in said.out
    found = zoea("stats", "--last", "week", "--json").json
    assert (found["span"], len(found["points"]), found["tokens"]) == ("week", 84, 0)
    assert found["points"][-1]["statuses"] == {"working": 2, "asking": 1}


def test_an_empty_span_and_an_unknown_one_are_said(zoea: Zoea) -> None:
    where = places(configured=False)
    where.make_data()

    async def create() -> None:
        await (await Store.open(where.database, clock_now=SystemClock().now)).close()

    asyncio.run(create())
    assert "No swarm ran in this time, or not yet for a minute" in zoea("stats", "--last", "day").out
    wrong = zoea("stats", "--last", "year")
    assert wrong.code == 2
    assert "Give one of hour, day, week." in wrong.err
