"""How a command reaches the swarm: the running one over its socket, or what is stored of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from zoea.cli import notices
from zoea.model.errors import NoRunningSwarm
from zoea.model.swarm_api import SwarmApi
from zoea.process.lock import read_holder
from zoea.runtime.run_options import attach
from zoea.settings.paths import Places, places

T = TypeVar("T")


def command(workspace: str, work: Callable[[SwarmApi], Awaitable[T]]) -> T:
    """Run `work` on the running swarm.

    Raises:
        NoRunningSwarm: where the workspace has none.
    """
    return asyncio.run(_command(places(workspace), work))


def ask(workspace: str, live: Callable[[SwarmApi], Awaitable[T]], stored: Callable[[Places], T]) -> T:
    """Ask the running swarm, or where there is none what is stored.

    Raises:
        StoreError: where nothing was ever stored there.
    """
    return ask_at(places(workspace), live, stored)


def ask_at(where: Places, live: Callable[[SwarmApi], Awaitable[T]], stored: Callable[[Places], T]) -> T:
    """As `ask`, of a workspace whose places are known."""
    if read_holder(where.data) is not None:
        try:
            return asyncio.run(_command(where, live))
        except NoRunningSwarm:
            if read_holder(where.data) is not None:
                raise
    return stored(where)


async def _command(where: Places, work: Callable[[SwarmApi], Awaitable[T]]) -> T:
    notice = notices.soon("waiting for the running swarm")
    try:
        async with await attach(where) as swarm:
            return await work(swarm)
    finally:
        notice.cancel()
