"""Periodic tasks of a running swarm: mirror commits, delete expired texts, store statistics."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path

from zoea.chain.blob_policies import ReleasedBlobs, release_expired
from zoea.chain.mirror import copy_blobs, remember_mirror
from zoea.model.errors import StoreError
from zoea.model.ports import Clock
from zoea.model.status import StatusWord
from zoea.runtime.maintenance import DAY_US, running_task
from zoea.settings.paths import expand_home
from zoea.settings.schema import Settings
from zoea.store.blobs import remove_blob_file
from zoea.store.database_file import connect_reader
from zoea.store.sqlite_errors import translate_errors
from zoea.store.store import Store
from zoea.swarm.persistence.stat_ops import MINUTE_US, store_minute

log = logging.getLogger(__name__)

MIRROR_S = 5
"""Seconds between two looks for new commits."""
RELEASE_S = 600
"""Seconds between two looks for bytes whose time is over."""


def mirror_folder(settings: Settings) -> Path | None:
    """Return the folder of `chain.mirror`, or None."""
    return expand_home(settings.chain.mirror) if settings.chain.mirror else None


@asynccontextmanager
async def run_mirror(store: Store, clock: Clock, folder: Path | None) -> AsyncIterator[None]:
    """Copy what commits hold until the block is left. Without a folder, do nothing."""
    await store.write(partial(remember_mirror, folder=folder))
    if folder is None:
        yield
        return
    async with running_task(_copy_always(store, clock, folder), "mirror"):
        yield


async def _copy_always(store: Store, clock: Clock, folder: Path) -> None:
    newest, reported = 0, ""
    while True:
        try:
            newest, copied = await asyncio.to_thread(copy_now, store.path, folder, newest)
            reported = ""
            if copied:
                log.info("%d blobs of commits were copied to %s", copied, folder)
        except StoreError as problem:
            if problem.what != reported:  # not every few seconds
                log.warning("commits are not mirrored: %s", problem.what)
            reported = problem.what
        await clock.sleep(MIRROR_S * 1_000_000)


def copy_now(database: Path, folder: Path, after: int = 0) -> tuple[int, int]:
    """See `copy_blobs`; opens the database for it."""
    with translate_errors(), closing(connect_reader(database)) as conn:
        return copy_blobs(conn, folder, after)


@asynccontextmanager
async def run_releases(store: Store, clock: Clock) -> AsyncIterator[None]:
    """Delete the texts of expired commits (`chain.ephemeral_days`) at once and then regularly."""
    async with running_task(_release_always(store, clock), "blob release"):
        yield


async def release_now(store: Store) -> ReleasedBlobs:
    """Delete expired texts in the database, then their files."""
    done = await store.write(release_expired)
    for file in done.files:
        remove_blob_file(file)
    return done


async def _release_always(store: Store, clock: Clock) -> None:
    ahead, waits_until = clock.now() - clock.uptime(), 0
    while True:
        if (set_by := clock.now() - clock.uptime() - ahead) >= DAY_US:
            log.warning("the clock was set ahead by %d days: texts are let go in a day", set_by // DAY_US)
            waits_until = clock.uptime() + DAY_US
        ahead += set_by
        if clock.uptime() < waits_until:
            await clock.sleep(RELEASE_S * 1_000_000)
            continue
        try:
            if (done := await release_now(store)).blobs:
                log.info("%d texts of ephemeral commits were let go, %d bytes", done.blobs, done.bytes)
        except (StoreError, OSError) as problem:
            log.warning("texts of ephemeral commits were not let go: %s", problem)
        await clock.sleep(RELEASE_S * 1_000_000)


@asynccontextmanager
async def record_minutes(
    store: Store, clock: Clock, count_statuses: Callable[[], Counter[StatusWord]]
) -> AsyncIterator[None]:
    """Store a row about the swarm at the start, each minute and at the end."""

    async def record(minute: int | None = None) -> None:
        statuses = {str(word): count for word, count in count_statuses().items()}
        try:
            await store.write(lambda conn: store_minute(conn, statuses, minute))
        except StoreError as problem:
            log.warning("the statistics of a minute could not be stored: %s", problem)

    async def follow() -> None:
        while True:
            minute, gone = divmod(clock.now(), MINUTE_US)
            await clock.sleep(MINUTE_US - gone)
            await record(minute)  # what was used since the last row belongs to the minute that has ended

    await record()
    try:
        async with running_task(follow(), "minute statistics"):
            yield
    finally:
        await record()
