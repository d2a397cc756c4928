"""Copies the blobs of new commits to the mirror while a swarm runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path

from zoea.chain.mirror import copy_blobs, remember_mirror
from zoea.model.errors import StoreError
from zoea.model.ports import Clock
from zoea.settings import Settings
from zoea.store import Store
from zoea.store.database_file import connect_reader
from zoea.store.sqlite_errors import translate_errors

_log = logging.getLogger(__name__)
SECONDS = 5
"""Seconds between two looks for new commits."""


def mirror_folder(settings: Settings) -> Path | None:
    """Return the folder of `chain.mirror`, or None."""
    return Path(settings.chain.mirror).expanduser() if settings.chain.mirror else None


@asynccontextmanager
async def run_mirror(store: Store, clock: Clock, folder: Path | None) -> AsyncIterator[None]:
    """Copy what commits hold until the block is left. Without a folder, do nothing."""
    await store.write(partial(remember_mirror, folder=folder))
    if folder is None:
        yield
        return
    task = asyncio.create_task(_copy_always(store, clock, folder), name="mirror")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _copy_always(store: Store, clock: Clock, folder: Path) -> None:
    newest, said = 0, ""
    while True:
        try:
            newest, copied = await asyncio.to_thread(copy_now, store.path, folder, newest)
            said = ""
            if copied:
                _log.info("%d blobs of commits were copied to %s", copied, folder)
        except StoreError as problem:
            if problem.what != said:  # not every few seconds
                _log.warning("commits are not mirrored: %s", problem.what)
            said = problem.what
        await clock.sleep(SECONDS * 1_000_000)


def copy_now(database: Path, folder: Path, after: int = 0) -> tuple[int, int]:
    """See `copy_blobs`; opens the database for it."""
    with translate_errors(), closing(connect_reader(database)) as conn:
        return copy_blobs(conn, folder, after)
