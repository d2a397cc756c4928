"""Maintenance of the database: by the owner in the background, and by commands without a swarm."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.sample_memories import database, remember, turn
from tests.waiting import until
from zoea.model.errors import StoreFull, StoreMissing, WorkspaceHeld
from zoea.process.clock import SystemClock
from zoea.process.lock import OwnerLock
from zoea.runtime import maintenance
from zoea.runtime.maintenance import apply_retention, run_maintenance
from zoea.settings.paths import Places, places
from zoea.store import retention
from zoea.store.retention import RemovedCounts, RetentionRule
from zoea.store.search import fts_index
from zoea.store.store import Store

CLOCK = SystemClock()


@pytest.fixture
def where() -> Places:
    """The default workspace with two hundred old memories in fifty turns of m1."""
    found = places("")
    found.make_data()
    found.make_runtime()
    with closing(database(found.database)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for _ in range(50):
            turn_id = turn(connection, 1)
            for number in range(4):
                remember(connection, f"iron ore {number} " * 20, turn_id=turn_id)
    return found


@pytest.fixture
async def store(where: Places) -> AsyncIterator[Store]:
    store = await Store.open(where.database, clock_now=CLOCK.now)
    yield store
    await store.close()


async def wait_for_value(store: Store, sql: str, wanted: int) -> None:
    async def is_there() -> bool:
        return bool((await store.read(sql))[0][0] == wanted)

    await until(is_there)


async def test_the_owner_applies_the_retention_rule_and_merges_while_idle(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "SECONDS", 0.01)
    async with run_maintenance(store, CLOCK, RetentionRule(days=1)):
        await wait_for_value(store, "SELECT count(*) FROM memory", 100)
        await wait_for_value(store, "SELECT count(DISTINCT segid) FROM memory_exact_idx", 1)
    (row,) = await store.read("SELECT sum(turns), sum(memories), max(who) FROM removal")
    assert tuple(row) == (26, 100, "memory.keep")  # the blank first turn of m1 among them


async def test_without_a_rule_nothing_is_removed_and_indexes_are_merged(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "SECONDS", 0.01)
    monkeypatch.setattr(maintenance, "PAGES", 2)
    merged = asyncio.Event()
    real = fts_index.merge

    def merge(connection: sqlite3.Connection, pages: int, *, whole: bool = False) -> bool:
        is_more = real(connection, pages, whole=whole)
        if not is_more:
            loop.call_soon_threadsafe(merged.set)
        return is_more

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(fts_index, "merge", merge)
    async with run_maintenance(store, CLOCK, RetentionRule()), asyncio.timeout(30):
        await merged.wait()
    assert (await store.read("SELECT count(*) FROM memory"))[0][0] == 200


async def test_maintenance_continues_after_a_full_disk(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "SECONDS", 0.01)
    tried = 0

    def fail(_connection: sqlite3.Connection, _pages: int) -> bool:
        nonlocal tried
        tried += 1
        raise StoreFull("no space")

    monkeypatch.setattr(fts_index, "merge", fail)
    async with run_maintenance(store, CLOCK, RetentionRule()):
        await until(lambda: tried >= 3)


async def test_turns_are_removed_in_steps(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "TURNS", 10)
    removed = await apply_retention(store, RetentionRule(memories=1), who="a test")
    assert (removed.turns, removed.memories) == (26, 100)
    assert (await store.read("SELECT count(*) FROM removal"))[0][0] == 3
    assert (await apply_retention(store, RetentionRule(memories=1))).turns == 0


async def test_text_removed_before_a_kill_leaves_the_indexes_at_the_next_start(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "SECONDS", 0.01)
    keep = RetentionRule(memories=1)
    removed = await store.write(
        lambda connection: retention.remove_turns(connection, 1, keep, now=CLOCK.now(), who="a test")
    )
    assert removed.memories == 100
    # Killed here; the next owner has no retention rule.
    async with run_maintenance(store, CLOCK, RetentionRule()):
        await wait_for_value(store, f"SELECT count(*) FROM ({retention.IS_UNMERGED})", 0)
    assert (await store.read("SELECT count(DISTINCT segid) FROM memory_exact_idx"))[0][0] == 1


async def test_a_message_without_a_turn_is_removed_by_age_and_recorded(store: Store) -> None:
    said = "INSERT INTO message(content, sender_kind, kind, created_at) VALUES (?, 'commander', 'broadcast', ?)"
    await store.write(lambda connection: connection.execute(said, ("old", 1)))
    await store.write(lambda connection: connection.execute(said, ("young", CLOCK.now())))
    assert await apply_retention(store, RetentionRule(memories=1000)) == RemovedCounts()
    assert (await apply_retention(store, RetentionRule(days=100_000))) == RemovedCounts()
    assert (await store.read("SELECT count(*) FROM message"))[0][0] == 2
    await apply_retention(store, RetentionRule(days=10_000), who="a test")
    assert [row["content"] for row in await store.read("SELECT content FROM message")] == ["young"]
    (row,) = await store.read("SELECT who, why, turns, memories, characters FROM removal WHERE mysis_id IS NULL")
    assert tuple(row) == ("a test", "keep 10000 days", 0, 0, 3)


def finding_names(where: Places) -> list[str]:
    return [finding.name for finding in maintenance.check_database(where, lambda what: None)]


def test_the_whole_database_is_checked_or_a_sample_beside_a_swarm(where: Places) -> None:
    assert finding_names(where) == ["modes", "file", "references", "search", "blobs", "unused files"]
    with OwnerLock(where.data, where.socket):
        assert "search (a sample)" in finding_names(where)
        with pytest.raises(WorkspaceHeld):
            maintenance.rebuild_indexes(where, lambda what: None)
        with pytest.raises(WorkspaceHeld):
            maintenance.vacuum(where, lambda what: None)


def test_indexes_are_rebuilt(where: Places) -> None:
    with closing(sqlite3.connect(where.database)) as connection, connection:
        connection.execute("INSERT INTO memory_exact(memory_exact) VALUES ('delete-all')")
    problems = {finding.name: finding.problem for finding in maintenance.check_database(where, lambda what: None)}
    assert problems["search"] == "differ from the stored rows: memory_exact"
    said: list[str] = []
    maintenance.rebuild_indexes(where, said.append)
    assert said == ["Indexing memories: 200 of 200", "Merging the indexes"]
    assert not any(finding.problem for finding in maintenance.check_database(where, lambda what: None))


def test_a_vacuum_frees_the_space_of_removed_data(where: Places) -> None:
    with closing(sqlite3.connect(where.database)) as connection, connection:
        connection.execute("DELETE FROM memory")
    stray = where.data / "blobs" / "00" / "00ff.zst"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"")
    done = maintenance.vacuum(where, lambda what: None)
    assert done.after < done.before
    assert done.files == 1
    assert not stray.exists()
    assert not any(finding.problem for finding in maintenance.check_database(where, lambda what: None))


def test_maintenance_without_a_database_raises_store_missing(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing):
        maintenance.rebuild_indexes(places("nowhere"), lambda what: None)
