"""Maintenance of the database, by the owner and by `zoea doctor`.

The owner merges the search indexes in small steps while the writer is idle, and removes
turns by `memory.keep_days` and `memory.keep_memories`. The commands hold the workspace's
lock, so that no swarm runs at the same time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager, suppress

from msgspec import Struct

from zoea.model.errors import StoreError, WorkspaceHeld
from zoea.model.ports import Clock
from zoea.process.clock import SystemClock
from zoea.process.lock import OwnerLock
from zoea.settings.paths import Places, list_data_folders
from zoea.store.blobs import remove_blob_file
from zoea.store.database_file import open_reader
from zoea.store.integrity import IntegrityFinding, compact, find_open_files, inspect_database, unused_files
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
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection, transaction

log = logging.getLogger(__name__)

SECONDS = 10
"""Seconds between two checks whether the writer is idle."""
KEEP_SECONDS = 3_600
"""Seconds between two removals by the retention rule."""
DAY_US = 86_400_000_000
"""A clock that is set ahead by this much may be wrong, and what it makes old would be lost."""
PAGES = 64
"""Pages of one step of merging: a few milliseconds."""

Say = Callable[[str], None]


@asynccontextmanager
async def running_task(work: Coroutine[None, None, None], name: str) -> AsyncIterator[None]:
    """Run a task until the block is left."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def run_maintenance(store: Store, clock: Clock, keep: RetentionRule) -> AbstractAsyncContextManager[None]:
    """Maintain the database in the background until the block is left."""
    return running_task(_look_after(store, clock, keep), "upkeep")


async def _look_after(store: Store, clock: Clock, keep: RetentionRule) -> None:
    seen, keep_at = store.stats.ops, clock.uptime()
    ahead = clock.now() - clock.uptime()
    while True:
        await clock.sleep(SECONDS * 1_000_000)
        try:
            if (set_by := clock.now() - clock.uptime() - ahead) >= DAY_US and not keep.is_everything:
                log.warning("the clock was set ahead by %d days: removal by age waits a day", set_by // DAY_US)
                keep_at = clock.uptime() + DAY_US
            ahead += set_by
            if not keep.is_everything and clock.uptime() >= keep_at:
                keep_at = clock.uptime() + KEEP_SECONDS * 1_000_000
                await apply_retention(store, keep)
            await _merge_removed(store)
            if store.stats.ops == seen:  # merge step by step, until all is merged or another op is written
                while store.stats.ops == seen and await store.write(lambda con: fts_index.merge(con, PAGES)):
                    seen += 1
        except StoreError as problem:
            log.warning("maintenance of the database failed: %s", problem)
        seen = store.stats.ops


async def apply_retention(store: Store, keep: RetentionRule, *, who: str = "memory.keep") -> RemovedCounts:
    """Remove turns by the retention rule, in steps between which other ops run.

    Raises:
        StoreError: if the database cannot be read or written.
    """
    total = RemovedCounts()
    for row in await store.read(MYSIS_IDS):
        mysis_id: int = row["id"]

        def step(connection: WriterConnection, mysis_id: int = mysis_id) -> RemovedCounts:
            return remove_turns(connection, mysis_id, keep, now=connection.now(), who=who)

        while (removed := await store.write(step)).turns:
            total += removed
    # Also without removed turns: messages expire on their own, and an earlier process may have been killed here.
    total += await store.write(lambda connection: remove_unused(connection, keep, now=connection.now(), who=who))
    await _merge_removed(store)
    if total.characters:
        log.info(
            "%s removed %d turns with %d memories, %d characters", who, total.turns, total.memories, total.characters
        )
    return total


async def _merge_removed(store: Store) -> None:
    """Merge the indexes completely if they still hold removed text. Only this removes it from the file."""
    if not await store.read(IS_UNMERGED):
        return
    await store.write(lambda connection: fts_index.merge(connection, PAGES, whole=True))
    while await store.write(lambda connection: fts_index.merge(connection, PAGES)):
        continue
    await store.write(mark_merged)


def check_database(places: Places, say: Say) -> Iterator[IntegrityFinding]:
    """Check the files' modes and the database, the readable part where it is read-only.

    Raises:
        StoreError: It cannot be read.
    """
    say("the modes of the files")
    yield find_open_files(*list_data_folders(places.data))
    try:
        if not os.access(places.data, os.W_OK):
            raise WorkspaceHeld(f"{places.data} is read-only")
        with open_alone(places) as connection, translate_errors():
            yield from inspect_database(connection, places.data, whole=True, report=say)
    except WorkspaceHeld:
        with closing(open_reader(places.database)) as reader, translate_errors():
            yield from inspect_database(reader, places.data, whole=False, report=say)


def rebuild_indexes(places: Places, say: Say) -> None:
    """Rebuild the search indexes. Raises WorkspaceHeld if a swarm runs, and StoreError."""
    with open_alone(places) as connection, translate_errors():

        def progress(done: int, total: int) -> None:
            if done == total or done % 20_000 == 0:
                say(f"Indexing memories: {done:,} of {total:,}")

        fts_index.rebuild(connection, progress)
        say("Merging the indexes")
        optimize(connection)


class VacuumResult(Struct, frozen=True):
    """Bytes before and after a vacuum, and the number of removed blob files."""

    before: int
    after: int
    files: int


def vacuum(places: Places, say: Say) -> VacuumResult:
    """Free the space of removed data. Raises WorkspaceHeld if a swarm runs, and StoreError."""
    with open_alone(places) as connection, translate_errors():
        before = places.database.stat().st_size
        say("Merging the indexes")
        optimize(connection)
        files = unused_files(connection, places.data)
        for file in files:
            remove_blob_file(file)
        say("Rewriting the database")
        compact(connection)
    return VacuumResult(before, places.database.stat().st_size, len(files))


def optimize(connection: sqlite3.Connection) -> None:
    """Merge the indexes, which erases removed text from them."""
    fts_index.optimize(connection)
    mark_merged(connection)


@contextmanager
def open_alone(places: Places) -> Iterator[sqlite3.Connection]:
    """Open a connection that may write, with the workspace's lock held."""
    open_reader(places.database).close()  # fails unless a database of this version exists
    lock = OwnerLock(places.data, places.socket, since=SystemClock().now())
    with lock, closing(sqlite3.connect(places.database, isolation_level=None)) as connection:
        with translate_errors(), transaction(connection):
            fts_index.catch_up(connection)
        yield connection
