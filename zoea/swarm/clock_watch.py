"""Moves all times of the swarm when the system's wall clock was set."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from zoea.model.errors import StoreClosed, StoreError, StoreFull
from zoea.store import WriterConnection
from zoea.swarm.persistence import time_ops
from zoea.swarm.rules import SECOND
from zoea.swarm.runner import MysisRunner
from zoea.swarm.services import Services

_log = logging.getLogger(__name__)
CHECK_US = SECOND


async def watch_clock(services: Services, runners: Mapping[int, MysisRunner]) -> None:
    """Compare wall time with boot time once a second, without end.

    It also wakes the event loop after a suspension, so that what is due by then begins.
    """
    while True:
        await services.clock.sleep(CHECK_US)
        if delta := services.clock.follow():
            await _move_times(services, runners, delta)


async def _move_times(services: Services, runners: Mapping[int, MysisRunner], delta: int) -> None:
    _log.warning("the system's clock was set by %+.1f s; waits and retries keep their lengths", delta / SECOND)

    def op(conn: WriterConnection) -> None:
        time_ops.move_times_ahead(conn, delta)

    # Without a pause between: ops submitted before have the old time, and those after it the new one.
    written = services.store.submit(op)
    for runner in runners.values():
        runner.clock_was_set(delta)
    services.view.touch()
    try:
        try:
            await written
        except StoreFull:
            await services.write(op)
    except StoreClosed:
        raise
    except StoreError as error:
        _log.warning(
            "stored times keep the old clock: %s. After a restart waits, retries and questions may come %+.1f s late",
            error.what,
            -delta / SECOND,
        )
