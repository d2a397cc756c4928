"""Looking after the database: what the owner does while nobody waits for it, and what a person asks for.

The owner merges the search indexes in small steps while the writer rests, and lets go
what `memory.keep_days` and `memory.keep_memories` say. `zoea doctor` and `zoea vacuum`
do theirs with the workspace's lock in hand, so that no swarm runs meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass

from zoea.model.errors import StoreError, WorkspaceHeld
from zoea.model.ports import Clock
from zoea.process.clock import SystemClock
from zoea.process.lock import OwnerLock
from zoea.settings.paths import Places
from zoea.store import Store, WriterConnection
from zoea.store.database_file import open_reader
from zoea.store.integrity import IntegrityFinding, compact, inspect_database, unused_files
from zoea.store.retention import (
    IS_UNMERGED,
    MYSIS_IDS,
    RemovedCounts,
    RetentionRule,
    mark_merged,
    remove_turns,
    remove_unused,
)
from zoea.store.search import fts_index
from zoea.store.sqlite_errors import translate_errors
from zoea.store.writer_connection import transaction

log = logging.getLogger(__name__)

SECONDS = 10
"""How often the owner looks whether the writer rests."""
KEEP_SECONDS = 3_600
PAGES = 64
"""Pages of one step of merging: a few milliseconds."""

Say = Callable[[str], None]


@asynccontextmanager
async def run_maintenance(store: Store, clock: Clock, keep: RetentionRule) -> AsyncIterator[None]:
    """Look after the database until the block is left."""
    task = asyncio.create_task(_look_after(store, clock, keep), name="upkeep")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _look_after(store: Store, clock: Clock, keep: RetentionRule) -> None:
    seen, kept_at = store.stats.ops, 0
    while True:
        await clock.sleep_until(clock.now() + SECONDS * 1_000_000)
        try:
            if not keep.is_everything and clock.now() - kept_at >= KEEP_SECONDS * 1_000_000:
                kept_at = clock.now()
                await apply_retention(store, keep)
            await _merge_removed(store)
            if store.stats.ops == seen:
                await _merge(store)
        except StoreError as problem:
            log.warning("looking after the database: %s", problem)
        seen = store.stats.ops


async def _merge(store: Store) -> None:
    """Merge step by step, until nothing is left to merge or somebody writes."""
    expected = store.stats.ops
    while store.stats.ops == expected and await store.write(lambda connection: fts_index.merge(connection, PAGES)):
        expected += 1


async def apply_retention(store: Store, keep: RetentionRule, *, who: str = "memory.keep") -> RemovedCounts:
    """Remove what the rule lets go, in steps between which others write; what that was. Raises StoreError."""
    total = RemovedCounts()
    for row in await store.read(MYSIS_IDS):
        mysis_id: int = row["id"]

        def step(connection: WriterConnection, mysis_id: int = mysis_id) -> RemovedCounts:
            return remove_turns(connection, mysis_id, keep, now=connection.now(), who=who)

        while (removed := await store.write(step)).turns:
            total += removed
    # Also where nothing went now: messages grow old by themselves, and an earlier process may have been killed here.
    total += await store.write(lambda connection: remove_unused(connection, keep, now=connection.now(), who=who))
    await _merge_removed(store)
    if total.characters:
        log.info(
            "%s removed %d turns with %d memories, %d characters", who, total.turns, total.memories, total.characters
        )
    return total


async def _merge_removed(store: Store) -> None:
    """Merge the indexes whole, in steps, where they still hold what was removed: only that takes it out of the file."""
    if not await store.read(IS_UNMERGED):
        return
    await store.write(lambda connection: fts_index.merge(connection, PAGES, whole=True))
    while await store.write(lambda connection: fts_index.merge(connection, PAGES)):
        continue
    await store.write(mark_merged)


def check_database(places: Places, say: Say) -> Iterator[IntegrityFinding]:
    """Look at the whole database; beside a running swarm, at what can be read. Raises StoreError."""
    try:
        with _alone(places) as connection, translate_errors():
            yield from inspect_database(connection, places.data, whole=True, report=say)
    except WorkspaceHeld:
        with closing(open_reader(places.database)) as reader, translate_errors():
            yield from inspect_database(reader, places.data, whole=False, report=say)


def rebuild_indexes(places: Places, say: Say) -> None:
    """Make the search indexes anew. Raises WorkspaceHeld where a swarm runs, and StoreError."""
    with _alone(places) as connection, translate_errors():

        def progress(done: int, total: int) -> None:
            if done == total or done % 20_000 == 0:
                say(f"Indexing memories: {done:,} of {total:,}")

        fts_index.rebuild(connection, progress)
        say("Merging the indexes")
        _optimize(connection)


@dataclass(frozen=True, slots=True)
class VacuumResult:
    """What a vacuum changed: bytes of the file, and files of blobs that belonged to nothing."""

    before: int
    after: int
    files: int


def vacuum(places: Places, say: Say) -> VacuumResult:
    """Give back the room of what was removed. Raises WorkspaceHeld where a swarm runs, and StoreError."""
    with _alone(places) as connection, translate_errors():
        before = places.database.stat().st_size
        say("Merging the indexes")
        _optimize(connection)
        files = unused_files(connection, places.data)
        for file in files:
            file.unlink(missing_ok=True)
        say("Writing the database anew")
        compact(connection)
    return VacuumResult(before, places.database.stat().st_size, len(files))


def _optimize(connection: sqlite3.Connection) -> None:
    fts_index.optimize(connection)
    mark_merged(connection)


@contextmanager
def _alone(places: Places) -> Iterator[sqlite3.Connection]:
    """A connection that may write, while no swarm runs."""
    open_reader(places.database).close()  # there is one, of this version
    lock = OwnerLock(places.data, places.socket, since=SystemClock().now())
    with lock, closing(sqlite3.connect(places.database, isolation_level=None)) as connection:
        with translate_errors(), transaction(connection):
            fts_index.catch_up(connection)
        yield connection
