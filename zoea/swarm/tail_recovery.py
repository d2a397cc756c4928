"""Commits what myses knew when their process ended; after a kill, at the next start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from zoea.chain.commit import Checkpoint, CommitNote
from zoea.model.errors import ZoeaError
from zoea.model.ports import Clock
from zoea.model.values import Mysis
from zoea.settings.commit_settings import ChainSettings
from zoea.store import Store
from zoea.swarm.context_capture import RECOVERED, ContextCapture
from zoea.swarm.persistence import capture_ops

_log = logging.getLogger(__name__)


async def find_left_tails(store: Store) -> frozenset[int]:
    """Return the ids of the myses with messages that a killed process did not commit."""
    return frozenset(row["id"] for row in await store.read(capture_ops.LEFT))


async def recover_tail(mysis: Mysis, chain: ChainSettings, store: Store, clock: Clock) -> None:
    """Commit what a killed process left of a mysis.

    A failure is logged, and the next commit holds the same.
    """
    capture = ContextCapture(mysis, chain, store, clock)
    if not capture.policy.at_session_end:
        return
    try:
        await capture.commit_stored(Checkpoint.SESSION_END, CommitNote(tags=(RECOVERED,)))
    except ZoeaError as error:
        _log.warning("what mysis #%d knew was not committed: %s", mysis.id, error.what)


async def flush_all(captures: Iterable[ContextCapture]) -> None:
    """Commit what waits of all myses, because the process ends; failures are logged."""
    for error in await asyncio.gather(*(one.flush() for one in captures), return_exceptions=True):
        if isinstance(error, ZoeaError):
            _log.warning("a context was not committed: %s", error.what)
        elif error is not None:
            raise error
