"""One run of `zoea serve`: the door for browsers, over an own swarm or beside a running one, until its end."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from functools import partial
from typing import Any

from zoea.ipc.remote_swarm import RemoteSwarm
from zoea.model.errors import NoRunningSwarm, WorkspaceHeld
from zoea.process.hangup import detach_terminal
from zoea.process.lock import read_holder
from zoea.runtime.owner import close_within
from zoea.runtime.run_options import RunOptions, attach, prepare_own_swarm, prepare_swarm
from zoea.settings.paths import Places
from zoea.web.browser_server import BrowserServer

HANDED_ON_S = 10.0
"""How long to wait for whoever takes over a swarm whose owner went away."""

CLOSING_S = 3.5
"""The door's share of the ten seconds that an end may take."""


async def served(options: RunOptions, where: Places, *, cockpit: tuple[str, ...], host: str, port: int) -> None:
    """Serve browsers, each a process of `cockpit`, until a signal or until the swarm ends.

    Raises:
        OwnerError: where the address cannot be listened at.
        ZoeaError: where the swarm cannot be had.
    """
    async with BrowserServer((*cockpit, options.workspace), host=host, port=port) as door:
        if read_holder(where.data) is None:
            try:
                await _over_own(door, options, where)
                return
            except WorkspaceHeld:
                if read_holder(where.data) is None:
                    raise
        await _beside(door, options, where)


async def _over_own(door: BrowserServer, options: RunOptions, where: Places) -> None:
    """Own the workspace without a screen; browsers attach to it as to any other."""
    from zoea.runtime.compose import SwarmOptions, running_swarm
    from zoea.runtime.model_discovery import load_run_settings
    from zoea.runtime.owner import own_workspace

    loaded = await load_run_settings(where, discover=not options.provider)
    swarm_options = SwarmOptions(world=options.world, loaded=loaded)
    async with own_workspace(where, partial(running_swarm, options=swarm_options)) as owner:
        owner.be_the_process(on_hangup=detach_terminal)
        await prepare_own_swarm(owner.api, options, loaded.settings)
        _announce(door, "The swarm runs here: ctrl+c ends it, and nothing stored is lost.")
        await owner.ending.wait()
        await close_within(CLOSING_S, door.close, "the door for browsers")


async def _beside(door: BrowserServer, options: RunOptions, where: Places) -> None:
    """Attached to the swarm of another process, and to whoever takes it over from that."""
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ending.set)
    loop.add_signal_handler(signal.SIGHUP, detach_terminal)
    if options.world:
        sys.stderr.write("zoea: attached to a running swarm; --world counts only where one is started\n")
    async with await attach(where) as swarm:
        await prepare_swarm(swarm, options)
        _announce(door, f"Attached to the swarm of process {swarm.pid}: ctrl+c leaves it running.")
        await _first(swarm.gone(), ending.wait())
    while not ending.is_set():
        _say("The swarm's owner went away; another is waited for.")
        successor = await _taken_over(where, ending)
        if successor is None:
            if not ending.is_set():
                _say("The running swarm has ended.")
            return
        await door.end_cockpits()  # theirs is the swarm that went away; their pages open the new one
        async with successor:
            await _first(successor.gone(), ending.wait())


async def _taken_over(where: Places, ending: asyncio.Event) -> RemoteSwarm | None:
    """The swarm of whoever holds the workspace again soon."""
    deadline = asyncio.get_running_loop().time() + HANDED_ON_S
    while not ending.is_set() and asyncio.get_running_loop().time() < deadline:
        try:
            return await attach(where)
        except NoRunningSwarm:
            await _first(asyncio.sleep(0.1), ending.wait())
    return None


async def _first(*reasons: Coroutine[Any, Any, Any]) -> None:
    """Wait for whichever comes first."""
    tasks = [asyncio.create_task(reason) for reason in reasons]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _announce(door: BrowserServer, whose: str) -> None:
    _say(f"The cockpit is at {door.address}")
    _say(f"Whoever has this address commands the swarm. {whose}")
    if not door.is_loopback:
        sys.stderr.write(
            "zoea: other machines can reach this, and nothing on the way is encrypted; "
            "`ssh -L 8000:127.0.0.1:8000` to this machine needs no --host\n"
        )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
