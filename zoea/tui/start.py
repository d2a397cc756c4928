"""Start the cockpit for `zoea run`: own the workspace, or attach to its owner."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from select import select
from signal import Signals
from types import ModuleType

from msgspec import Struct, structs

from zoea.model.errors import OwnerError, StoreError, WorkspaceHeld
from zoea.model.values import SwarmView
from zoea.process.clock import read_wall_time, run_on_boot_time
from zoea.process.forced_end import attempt, force_end
from zoea.process.lock import OwnerLock, read_holder
from zoea.process.signal_watchdog import SignalWatchdog
from zoea.runtime.run_options import (
    WORLD,
    RunOptions,
    attach,
    leave_running,
    pass_lock_on,
    prepare_own_swarm,
    prepare_swarm,
)
from zoea.settings.early_settings import read_early_settings
from zoea.settings.paths import Places, places
from zoea.text.amounts import format_dollars
from zoea.text.sentences import count_of
from zoea.tui.app import CockpitApp, run
from zoea.tui.state.cockpit import OTHER_WORKSPACE
from zoea.tui.state.swarm_connection import Opener, OpenSwarm
from zoea.tui.state.swarm_feed import SwarmFeed
from zoea.tui.terminal.output_redirect import redirect_output
from zoea.tui.terminal.terminal_driver import TerminalDriver

END_S = 3.0
"""Seconds from the end of the cockpit and its swarm to the end of the event loop and its threads."""


def start(options: RunOptions, where: Places) -> int:
    """Show the cockpit until the person leaves it. Returns the exit code, which is not 0 after a failure."""
    if options.read_only:
        return watch(options, where)
    in_world = dataclasses.replace(options, world=WORLD)
    session = CockpitSession(where, options)
    cockpit = build_cockpit(
        where,
        lambda: open_swarm(options, where, session),
        with_world=lambda: open_swarm(in_world, where, session),
        stored=lambda: read_stored_rows(where),
        reduced_motion=options.calm,
    )
    cockpit.new_myses = options
    cockpit.driver_class = TerminalDriver
    cockpit.read_only_opener = lambda: open_read_only(where)
    cockpit.find_successor = lambda: find_successor(where)
    how = show_cockpit(cockpit, where.log, session)
    if how.startswith(OTHER_WORKSPACE):
        name = how.removeprefix(OTHER_WORKSPACE)
        return start(dataclasses.replace(options, workspace=name), places(name))
    if select([], [sys.stdout], [], 0)[1]:  # a terminal that is not read would hold up the end
        sys.stdout.write(describe_session(how, cockpit.feed, where))
    return cockpit.return_code or 0  # 1 after a defect in the cockpit


def watch(options: RunOptions, where: Places) -> int:
    """Show a cockpit that commands nothing until the person leaves it. Returns the exit code."""
    cockpit = build_watcher(where, reduced_motion=options.calm)
    cockpit.driver_class = TerminalDriver
    show_cockpit(cockpit, where.log)
    return cockpit.return_code or 0


def build_watcher(where: Places, *, reduced_motion: bool = False, writes_files: bool = True) -> CockpitApp:
    """Create a cockpit that commands nothing, and where asked writes no files either."""
    opener = partial(open_watched, writes_files=writes_files)
    cockpit = build_cockpit(
        where, lambda: opener(where), stored=lambda: read_stored_rows(where), reduced_motion=reduced_motion
    )
    cockpit.find_successor = lambda: find_successor(where, opener)
    return cockpit


def build_cockpit(
    where: Places,
    opener: Opener,
    *,
    with_world: Opener | None = None,
    stored: Callable[[], SwarmView | None] | None = None,
    reduced_motion: bool = False,
) -> CockpitApp:
    """Create a cockpit with the person's theme and keys.

    Args:
        with_world: Opens the swarm with the sandbox world.
        stored: Reads the rows that are shown until the swarm is open.
        reduced_motion: Nothing moves in this run, also when the settings allow it.
    """
    return CockpitApp(
        opener,
        sandbox_opener=with_world,
        stored=stored,
        config=where.config,
        credentials=where.credentials,
        drafts=where.drafts,
        early=read_early_settings(where.config, os.environ),
        reduced_motion=reduced_motion,
        now=read_wall_time,
    )


def read_stored_rows(where: Places) -> SwarmView | None:
    """Read the stored swarm for a first look. None where another process runs it, or it cannot be read."""
    # Imported after the first paint.
    from zoea.queries.stored_swarm import read_swarm_view

    if read_holder(where.data) is not None:
        return None
    try:
        return read_swarm_view(where.database)
    except StoreError:
        return None  # opening it reports why


class CockpitSession(Struct):
    """A cockpit's process: the options of its swarm, and the lock if it owns one.

    Attributes:
        options: Those that a process which continues the swarm gets.
    """

    where: Places
    options: RunOptions
    lock: OwnerLock | None = None

    def hand_on_now(self) -> None:
        """Hand an owned workspace to a new process, while this one is still at work."""
        if self.lock is not None:
            pass_lock_on(self.lock, self.options)


def show_cockpit(cockpit: CockpitApp, log: Path, session: CockpitSession | None = None) -> str:
    """Run a cockpit with the terminal to itself; other output goes to `log`.

    A swarm that is left running is handed on before the event loop closes, because a second
    SIGHUP without a handler would end the process before.

    Returns how it was left. Raises ZoeaError when its swarm could not be opened.
    """

    def unanswered(number: Signals) -> None:
        attempt(cockpit.give_up_terminal)
        if number is Signals.SIGHUP:
            if session is not None:
                session.hand_on_now()
            os._exit(0)
        force_end(f"the cockpit did not answer {number.name}")

    async def show() -> str:
        cockpit.signals = SignalWatchdog(unanswered)
        try:
            how = await run(cockpit)
            if how == "leave" and session is not None:
                await leave_running(session.options, session.where)
        finally:
            watchdog.start()
            cockpit.signals.close()
        return how

    watchdog = threading.Timer(END_S, force_end, ["the cockpit did not end in time"])
    watchdog.daemon = True
    with redirect_output(log):
        how = run_on_boot_time(show())
    watchdog.cancel()
    if cockpit.open_error is not None:
        raise cockpit.open_error
    return how


@asynccontextmanager
async def open_swarm(
    options: RunOptions, where: Places, session: CockpitSession | None = None
) -> AsyncIterator[OpenSwarm]:
    """Open the workspace's swarm, or attach to the process that runs it.

    Args:
        session: Gets the lock of an owned swarm.

    Raises ZoeaError when both fail.
    """
    if read_holder(where.data) is None:
        try:
            async with _own_swarm(options, where, session) as swarm:
                yield swarm
                return
        except WorkspaceHeld:
            # Another process took the workspace in between: attach to it.
            if read_holder(where.data) is None:
                raise
    async with attach_to_swarm(where) as swarm:
        note = await prepare_swarm(swarm.api, options, where)
        yield structs.replace(swarm, warning=note)


@asynccontextmanager
async def attach_to_swarm(where: Places) -> AsyncIterator[OpenSwarm]:
    """Attach to the swarm that another process runs. Raises NoRunningSwarm when none does."""
    from zoea.process.logs import logging_to_stderr  # after the first paint

    async with await attach(where) as remote:
        with logging_to_stderr():
            yield OpenSwarm(remote, where.database, is_owner=False, workspace=where.workspace, places=where)


async def find_successor(
    where: Places, opener: Callable[[Places], AbstractAsyncContextManager[OpenSwarm]] | None = None
) -> Opener | None:
    """Return what attaches to the process that runs the swarm now; None where none answers.

    Args:
        opener: Attaches to it; `attach_to_swarm` if None.
    """
    from zoea.ipc.remote_swarm import connect_to

    try:
        async with await connect_to(await asyncio.to_thread(read_holder, where.data)):
            return partial(opener or attach_to_swarm, where)
    except OwnerError:
        return None


def describe_session(how: str, feed: SwarmFeed, where: Places) -> str:
    """Say what ran while this cockpit was open, what it cost, and what goes on."""
    from zoea.queries.stored_swarm import read_swarm_view

    try:
        myses = read_swarm_view(where.database).myses if feed.view is not None else ()
    except StoreError:  # what could not be read was shown; the swarm's own state is told all the same
        myses = ()
    before = [feed.first.get(view.id, structs.replace(view, turns=0, tokens=0, cost_micros=0)) for view in myses]
    worked = sum(view.turns > first.turns for view, first in zip(myses, before, strict=True))
    turns = sum(view.turns for view in myses) - sum(view.turns for view in before)
    tokens = sum(view.tokens for view in myses) - sum(view.tokens for view in before)
    cost = sum(view.cost_micros or 0 for view in myses) - sum(view.cost_micros or 0 for view in before)
    work = f"{count_of(worked, 'mysis')} worked: {count_of(turns, 'turn')}, {count_of(tokens, 'token')}"
    work += f", {format_dollars(cost)}" if cost else ""
    runs_on = how in ("leave", "detach") if how else read_holder(where.data) is not None
    if runs_on and not feed.lost:
        state = f"The swarm runs on with {count_of(feed.roster.running, 'mysis')} active; `zoea run` shows it."
    else:
        state = "The swarm has ended; `zoea run` opens it again."
    return f"{work}. {state}\n" if worked else f"{state}\n"


@asynccontextmanager
async def open_read_only(where: Places) -> AsyncIterator[OpenSwarm]:
    """Open the stored state of a swarm without a reachable owner; commands are refused."""
    from zoea.ipc.read_only import REASON, ReadOnlySwarm

    yield OpenSwarm(
        ReadOnlySwarm.over(where.database),
        where.database,
        is_owner=False,
        workspace=where.workspace,
        places=where,
        read_only_reason=REASON,
    )


@asynccontextmanager
async def open_watched(where: Places, *, writes_files: bool = True) -> AsyncIterator[OpenSwarm]:
    """Open a swarm to look at it: the running one, else the stored one. Raises ZoeaError where there is none."""
    from zoea.ipc.read_only import WATCHES, ReadOnlySwarm, WatchedSwarm

    if read_holder(where.data) is None:
        async with open_read_only(where) as stored:
            api = ReadOnlySwarm.over(where.database)
            yield structs.replace(stored, api=api, read_only_reason=WATCHES, writes_files=writes_files)
        return
    async with attach_to_swarm(where) as running:
        watched = WatchedSwarm.over(running.api)
        yield structs.replace(running, api=watched, read_only_reason=WATCHES, writes_files=writes_files, runs=True)


@asynccontextmanager
async def _own_swarm(options: RunOptions, where: Places, session: CockpitSession | None) -> AsyncIterator[OpenSwarm]:
    # Imported after the first paint, because it takes longer than the first paint may.
    compose, discovery, owner = await asyncio.to_thread(_import_composition)
    loaded = await discovery.load_run_settings(where, discover=not options.provider)
    swarm_options = compose.SwarmOptions(world=options.world, metrics=options.metrics, loaded=loaded)

    async with owner.own_workspace(where, lambda *given: compose.running_swarm(*given, options=swarm_options)) as owned:
        if session is not None:
            session.lock, session.options = owned.lock, options
        note = await prepare_own_swarm(owned.api, options, where, loaded.settings)
        yield OpenSwarm(
            owned.api,
            where.database,
            is_owner=True,
            workspace=where.workspace,
            places=where,
            ending=owned.ending,
            warning="\n".join(filter(None, (owned.warning, loaded.trust_notice, note))),
            asks_restart=loaded.settings.swarm.restart != "never",
        )


def _import_composition() -> tuple[ModuleType, ModuleType, ModuleType]:
    """Import the composition root, which takes long."""
    from zoea.runtime import compose, owner
    from zoea.runtime import model_discovery as discovery

    return compose, discovery, owner
