"""From `zoea run` in a terminal to the cockpit: own the workspace, or attach to whoever does."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from zoea.model.errors import WorkspaceHeld
from zoea.process.clock import SystemClock
from zoea.process.lock import read_holder
from zoea.runtime.run_options import RunOptions, attach, leave_running, prepare_own_swarm, prepare_swarm
from zoea.settings.early_settings import read_early_settings
from zoea.settings.paths import Places, places
from zoea.tui.app import OTHER, Cockpit, Opened, Opener, run
from zoea.tui.terminal.output_redirect import screen_alone

WORLD = "reef"


def start(options: RunOptions, where: Places) -> int:
    """Show the cockpit until the person leaves it. The exit code: not 0 where it failed."""
    in_world = replace(options, world=WORLD)
    cockpit = cockpit_over(
        where, lambda: opened(options, where), with_world=lambda: opened(in_world, where), calm=options.calm
    )
    cockpit.looker = lambda: looking(where)
    how = shown(cockpit, where.log)
    if how.startswith(OTHER):
        name = how.removeprefix(OTHER)
        return start(replace(options, workspace=name), places(name))
    if how == "leave":
        asyncio.run(leave_running(options, where))
        sys.stdout.write("The swarm runs on without a screen; `zoea run` attaches to it.\n")
    return cockpit.return_code or 0  # a cockpit that failed has said why, and is no success


def cockpit_over(where: Places, opener: Opener, *, with_world: Opener | None = None, calm: bool = False) -> Cockpit:
    """A cockpit with the looks and keys that the person chose; `calm` where nothing may move this time."""
    wanted = read_early_settings(where.config, os.environ)
    return Cockpit(
        opener,
        opener_with_world=with_world,
        config=where.config,
        theme_name=wanted.theme,
        keymap=dict(wanted.keys),
        calm=wanted.reduced_motion or calm,
        stays_calm=calm,
        bell=wanted.bell,
        now=SystemClock().now,
    )


def shown(cockpit: Cockpit, log: Path) -> str:
    """Show it to its end, and how it was left. What else would write over it goes to `log`.

    Raises ZoeaError where its swarm could not be had.
    """
    with screen_alone(log):
        how = asyncio.run(run(cockpit))
    if cockpit.open_error is not None:
        raise cockpit.open_error
    return how


@asynccontextmanager
async def opened(options: RunOptions, where: Places) -> AsyncIterator[Opened]:
    """The workspace's swarm: this process's own, or the one that another process runs.

    Raises ZoeaError where neither can be had.
    """
    if read_holder(where.data) is None:
        try:
            async with _owned(options, where) as swarm:
                yield swarm
                return
        except WorkspaceHeld:
            # Somebody was quicker: attach to them.
            if read_holder(where.data) is None:
                raise
    async with attached(where) as swarm:
        await prepare_swarm(swarm.api, options)
        yield swarm


@asynccontextmanager
async def attached(where: Places) -> AsyncIterator[Opened]:
    """The swarm that another process runs. Raises NoRunningSwarm where none does."""
    async with await attach(where) as remote:
        yield Opened(remote, where.database, is_owner=False, workspace=where.workspace, places=where)


@asynccontextmanager
async def looking(where: Places) -> AsyncIterator[Opened]:
    """What is stored of a swarm whose owner cannot be reached; nothing of it can be commanded."""
    from zoea.ipc.read_only import REASON, ReadOnlySwarm

    yield Opened(
        ReadOnlySwarm.over(where.database),
        where.database,
        is_owner=False,
        workspace=where.workspace,
        places=where,
        looks_only=REASON,
    )


@asynccontextmanager
async def _owned(options: RunOptions, where: Places) -> AsyncIterator[Opened]:
    # Everything below takes longer to import than the first paint may: it comes after it.
    compose, discovery, owner = await asyncio.to_thread(_heavy)
    loaded = await discovery.load_run_settings(where, discover=not options.provider)
    swarm_options = compose.SwarmOptions(world=options.world, loaded=loaded)

    async with owner.own_workspace(where, lambda *given: compose.running_swarm(*given, options=swarm_options)) as owned:
        await prepare_own_swarm(owned.api, options, loaded.settings)
        yield Opened(
            owned.api,
            where.database,
            is_owner=True,
            workspace=where.workspace,
            places=where,
            ending=owned.ending,
        )


def _heavy() -> tuple[ModuleType, ModuleType, ModuleType]:
    """The composition root and what it pulls in."""
    from zoea.runtime import compose, owner
    from zoea.runtime import model_discovery as discovery

    return compose, discovery, owner
