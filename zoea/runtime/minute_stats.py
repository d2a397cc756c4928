"""Stores once a minute what the swarm does, while the owner runs."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from zoea.model.errors import StoreError
from zoea.model.ports import Clock
from zoea.model.status import StatusWord
from zoea.store import Store
from zoea.swarm.persistence.stat_ops import MINUTE_US, store_minute

log = logging.getLogger(__name__)


@asynccontextmanager
async def record_minutes(
    store: Store, clock: Clock, count_statuses: Callable[[], Counter[StatusWord]]
) -> AsyncIterator[None]:
    """Store a row at the start, after each minute and at the end."""

    async def record() -> None:
        statuses = {str(word): count for word, count in count_statuses().items()}
        try:
            await store.write(lambda conn: store_minute(conn, statuses))
        except StoreError as problem:
            log.warning("the statistics of a minute could not be stored: %s", problem)

    async def follow() -> None:
        while True:
            await clock.sleep(MINUTE_US - clock.now() % MINUTE_US)
            await record()

    await record()
    task = asyncio.create_task(follow(), name="minute statistics")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await record()
