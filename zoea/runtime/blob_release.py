"""Lets go of the bytes of ephemeral commits while a swarm runs.

See the setting `chain.ephemeral_days`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from zoea.chain.blob_policies import ReleasedBlobs, release_expired
from zoea.model.errors import StoreError
from zoea.model.ports import Clock
from zoea.runtime.maintenance import DAY_US
from zoea.store import Store

_log = logging.getLogger(__name__)
SECONDS = 600
"""Seconds between two looks for bytes whose time is over."""


@asynccontextmanager
async def run_releases(store: Store, clock: Clock) -> AsyncIterator[None]:
    """Look at once and then regularly, until the block is left."""
    task = asyncio.create_task(_release_always(store, clock), name="blob release")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def release_now(store: Store) -> ReleasedBlobs:
    """Let go of what is over, in the database and then its files."""
    done = await store.write(release_expired)
    for file in done.files:
        file.unlink(missing_ok=True)
    return done


async def _release_always(store: Store, clock: Clock) -> None:
    ahead, waits_until = clock.now() - clock.uptime(), 0
    while True:
        if (set_by := clock.now() - clock.uptime() - ahead) >= DAY_US:
            _log.warning("the clock was set ahead by %d days: texts are let go in a day", set_by // DAY_US)
            waits_until = clock.uptime() + DAY_US
        ahead += set_by
        if clock.uptime() < waits_until:
            await clock.sleep(SECONDS * 1_000_000)
            continue
        try:
            if (done := await release_now(store)).blobs:
                _log.info("%d texts of ephemeral commits were let go, %d bytes", done.blobs, done.bytes)
        except (StoreError, OSError) as problem:
            _log.warning("texts of ephemeral commits were not let go: %s", problem)
        await clock.sleep(SECONDS * 1_000_000)
