"""Opens the swarm for commands: by the socket of its owner, or the database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, TypeVar

from zoea.cli import output
from zoea.model.enums import Activity
from zoea.model.errors import NoRunningSwarm
from zoea.model.status import StatusWord, is_starting
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import Receipt, SwarmView
from zoea.process.lock import read_holder
from zoea.runtime.run_options import attach
from zoea.settings.paths import Places

if TYPE_CHECKING:
    from zoea.store.store import Store

T = TypeVar("T")
_BEGIN_S, _LOOK_S = 1.0, 0.05


def command(where: Places, work: Callable[[SwarmApi], Awaitable[T]]) -> T:
    """Run `work` on the running swarm and return its result.

    Raises:
        NoRunningSwarm: No swarm runs in the workspace.
    """
    if (run_in_front := output.run_in_front.get()) is not None:
        result: T = run_in_front(work)
        return result
    return asyncio.run(_command(where, work))


async def read_begun(swarm: SwarmApi, ids: Collection[int]) -> SwarmView:
    """Return the swarm once these myses reached a model or are blocked, within a second."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _BEGIN_S
    has_called = False
    while True:
        view = await swarm.view()
        chosen = [one for one in view.myses if one.id in ids]
        is_calling = any(one.activity is Activity.LLM and one.status is StatusWord.WORKING for one in chosen)
        # A call is shown a moment before its provider takes it or has it wait, so the first look at one does not count.
        if loop.time() > until or not (any(map(is_starting, chosen)) or (is_calling and not has_called)):
            return view
        has_called = is_calling
        await asyncio.sleep(_LOOK_S)


async def read_recipients(swarm: SwarmApi, receipt: Receipt) -> SwarmView:
    """Return the swarm after each recipient has begun or is blocked, within a second."""
    names = {line.mysis for line in receipt.lines if line.delivery_id}
    return await read_begun(swarm, {one.id for one in (await swarm.view()).myses if one.name in names})


def ask(where: Places, live: Callable[[SwarmApi], Awaitable[T]], stored: Callable[[Places], T]) -> T:
    """Read with `live` from a running swarm, else with `stored` from the database.

    Raises:
        StoreError: No swarm runs and the database cannot be read.
    """
    if output.run_in_front.get() is not None:
        return command(where, live)
    if read_holder(where.data) is not None:
        try:
            return asyncio.run(_command(where, live))
        except NoRunningSwarm:
            if read_holder(where.data) is not None:
                raise
    return stored(where)


def edit(where: Places, live: Callable[[SwarmApi], Awaitable[T]], stored: Callable[[Store], Awaitable[T]]) -> T:
    """Write through the running swarm, or with `stored` to the database if none runs.

    Raises:
        WorkspaceHeld: Another command writes to the database.
    """

    # Only this needs the settings and the store, which take a third of a command's start.
    from zoea.transfer.held_workspace import held_workspace

    async def write(here: Places) -> T:
        async with held_workspace(here) as held:
            return await stored(held.store)

    return ask(where, live, lambda here: asyncio.run(write(here)))


async def _command(where: Places, work: Callable[[SwarmApi], Awaitable[T]]) -> T:
    notice = output.soon("waiting for the running swarm")
    try:
        async with await attach(where) as swarm:
            return await work(swarm)
    finally:
        notice.cancel()
