"""What the swarm did each minute is stored and counted once. It is read by hour, day and week."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tests.fakes.llm_clock import HandClock
from tests.swarm.harness import swarm
from tests.tui.cockpit import QUIET, answering
from tests.waiting import until
from zoea.queries.swarm_stats import StatSpan, read_stats
from zoea.runtime.periodic_tasks import record_minutes
from zoea.swarm.persistence.stat_ops import KEPT_MINUTES, MINUTE_US, store_minute

START = 1_700_000_040_000_000
"""The beginning of a minute."""


async def test_a_minute_counts_tokens_turns_statuses_and_waiting_messages(tmp_path: Path) -> None:
    clock = HandClock(START)
    async with swarm(tmp_path, rules=answering(), clock=clock, settings=QUIET) as inner:
        view = inner.commander.swarm.live_view
        async with record_minutes(inner.store, clock, view.count_statuses):
            await inner.commander.create("alpha")
            await inner.commander.send("alpha", "hello")
            await inner.settled("alpha")
            await inner.commander.hold(True, ref="alpha")
            await inner.commander.send("alpha", "later")
            clock.by(60)
        stats = read_stats(inner.path, StatSpan.HOUR, clock.now())
    last = stats.points[-1]
    assert len(stats.points) == 60
    assert stats.tokens > 0
    assert stats.turns == Counter(answered=1)
    assert (dict(last.statuses), last.waiting) == ({"paused": 1}, 1)


async def test_the_minute_in_which_a_swarm_is_opened_counts_at_once(tmp_path: Path) -> None:
    clock = HandClock(START)
    async with swarm(tmp_path, rules=answering(), clock=clock, settings=QUIET) as inner:
        await inner.store.write(lambda conn: store_minute(conn, {}, START // MINUTE_US))  # as at a start
        await inner.commander.create("alpha")
        await inner.commander.send("alpha", "hello")
        await inner.settled("alpha")
        stats = read_stats(inner.path, StatSpan.HOUR, clock.now(), {"idle": 1})
    assert stats.tokens == inner.commander.swarm.live_view.row(1).tokens > 0


async def test_what_was_used_is_stored_for_the_minute_in_which_it_was_used(tmp_path: Path) -> None:
    clock = HandClock(START)
    async with swarm(tmp_path, rules=answering(), clock=clock, settings=QUIET) as inner:
        await inner.store.write(lambda conn: store_minute(conn, {}, START // MINUTE_US - 1))
        await inner.commander.create("alpha")
        async with record_minutes(inner.store, clock, inner.commander.swarm.live_view.count_statuses):
            await inner.commander.send("alpha", "hello")
            await inner.settled("alpha")
            clock.by(60)
            await until(lambda: inner.store.read("SELECT minute FROM minute_stat WHERE outcomes <> '{}'"))
        stats = read_stats(inner.path, StatSpan.HOUR, clock.now())
    assert [point.turns for point in stats.points[-2:]] == [{"answered": 1}, {}]
    assert [point.tokens > 0 for point in stats.points[-2:]] == [True, False]


async def test_the_first_minute_of_a_database_keeps_its_tokens_once_it_has_ended(tmp_path: Path) -> None:
    clock = HandClock(START)
    async with swarm(tmp_path, rules=answering(), clock=clock, settings=QUIET) as inner:
        async with record_minutes(inner.store, clock, inner.commander.swarm.live_view.count_statuses):
            await inner.commander.create("alpha")
            await inner.commander.send("alpha", "hello")
            await inner.settled("alpha")
            clock.by(60)
            await until(lambda: inner.store.read("SELECT minute FROM minute_stat WHERE tokens > 0"))
        stats = read_stats(inner.path, StatSpan.HOUR, clock.now())
        used = inner.commander.swarm.live_view.row(1).tokens
    assert [point.tokens for point in stats.points[-2:]] == [used, 0]


async def test_a_restart_loses_nothing_and_counts_nothing_twice(tmp_path: Path) -> None:
    clock = HandClock(START)
    for _ in range(2):
        async with swarm(tmp_path, rules=answering(), clock=clock, settings=QUIET) as inner:
            async with record_minutes(inner.store, clock, inner.commander.swarm.live_view.count_statuses):
                pass
            if not inner.commander.swarm.live_view.rows():
                await inner.commander.create("alpha")
            await inner.commander.send("alpha", "hello")
            await inner.settled("alpha")
            clock.by(90)
    async with swarm(tmp_path, rules=answering(), clock=clock, settings=QUIET) as inner:
        async with record_minutes(inner.store, clock, inner.commander.swarm.live_view.count_statuses):
            pass
        stats = read_stats(inner.path, StatSpan.DAY, clock.now())
        used = await inner.store.read("SELECT sum(tokens) AS tokens FROM tally")
    assert stats.turns == Counter(answered=2)
    assert stats.tokens == used[0]["tokens"]


async def test_old_minutes_are_removed(tmp_path: Path) -> None:
    clock = HandClock(START)
    async with swarm(tmp_path, rules=answering(), clock=clock, settings=QUIET) as inner:
        await inner.store.write(lambda conn: store_minute(conn, {"idle": 1}))
        clock.by((KEPT_MINUTES + 1) * MINUTE_US / 1_000_000)
        await inner.store.write(lambda conn: store_minute(conn, {"idle": 2}))
        rows = await inner.store.read("SELECT statuses FROM minute_stat")
    assert [json.loads(row["statuses"]) for row in rows] == [{"idle": 2}]
