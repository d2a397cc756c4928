"""`zoea serve`: shows the cockpit of an own or a running swarm in browsers."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from zoea.cli import output
from zoea.ipc.remote_swarm import RemoteSwarm
from zoea.model.errors import NoRunningSwarm, UsageError, WorkspaceHeld
from zoea.process.clock import run_on_boot_time
from zoea.process.command_line import declare, option, whole_number
from zoea.process.forced_end import detach_terminal
from zoea.process.lock import read_holder
from zoea.runtime.owner import close_within
from zoea.runtime.run_options import (
    READ_ONLY,
    StartOptions,
    attach,
    prepare_own_swarm,
    prepare_swarm,
    refuse_new_myses,
    refuse_starts,
)
from zoea.settings.paths import Places, places
from zoea.web.browser_server import BrowserServer

cockpit: tuple[str, ...] = ()
"""The command line of one cockpit process. `zoea.__main__` sets it, because `cli` may not import `tui`."""

SUCCESSOR_TIMEOUT_S = 10.0
"""How long to wait for a new owner after the attached one went away."""

CLOSE_TIMEOUT_S = 3.5
"""The browser server's share of the ten seconds that a shutdown may take."""


@dataclass(frozen=True, slots=True)
class ServeOptions(StartOptions):
    """The command line of `zoea serve`."""

    host: str = declare(
        option("--host ADDRESS", "Address to listen at; only this machine reaches 127.0.0.1.", "127.0.0.1")
    )
    port: int = declare(option("--port N", "Port to listen at; 0 chooses a free one.", 8000, whole_number(0, 65535)))


def serve(options: ServeOptions) -> None:
    """Show the cockpit in browsers.

    It attaches to the running swarm; without one it runs the swarm itself, and ctrl+c ends it.
    The printed address holds a new token each time: everyone who has the address can command the swarm.
    Closing a tab, or pressing q in it, ends that cockpit and never the swarm.
    With --read-only it runs no swarm, and who has the address sees all of it and commands and writes nothing.

    Example: zoea serve --port 9000
    """
    if not options.host.strip():
        raise UsageError("--host names no address", hint="Leave it out for this machine alone; 0.0.0.0 is any.")
    refuse_starts(options)
    where = places(options.workspace)
    refuse_new_myses(options, where)
    run_on_boot_time(serve_browsers(options, where, cockpit=cockpit))


command = (ServeOptions, serve)


async def serve_browsers(options: ServeOptions, where: Places, *, cockpit: tuple[str, ...]) -> None:
    """Serve browsers until a signal arrives or the swarm ends. Each browser gets a process of `cockpit`.

    Raises:
        OwnerError: The address cannot be listened at.
        ZoeaError: The swarm can be neither opened nor reached.
    """
    command = (*cockpit, options.workspace, *([READ_ONLY] if options.read_only else []))
    async with BrowserServer(command, host=options.host, port=options.port) as server:
        if options.read_only:
            ending = _end_at_signals()
            announce(server, "sees the swarm and commands nothing", "ctrl+c ends the page and no swarm.")
            await ending.wait()
            return
        if read_holder(where.data) is None:
            try:
                await _serve_own_swarm(server, options, where)
                return
            except WorkspaceHeld:
                if read_holder(where.data) is None:
                    raise
        await _serve_running_swarm(server, options, where)


def _end_at_signals() -> asyncio.Event:
    """Return what is set at the first signal that ends the command."""
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ending.set)
    loop.add_signal_handler(signal.SIGHUP, detach_terminal)
    return ending


async def _serve_own_swarm(server: BrowserServer, options: StartOptions, where: Places) -> None:
    """Own the workspace without a screen; browsers attach to it as to any other."""
    from zoea.runtime.compose import SwarmOptions, running_swarm
    from zoea.runtime.model_discovery import load_run_settings
    from zoea.runtime.owner import own_workspace

    loaded = await load_run_settings(where, discover=not options.provider)
    swarm_options = SwarmOptions(world=options.world, metrics=options.metrics, write_line=_say, loaded=loaded)
    swarm_of = partial(running_swarm, options=swarm_options)
    async with own_workspace(where, swarm_of, on_hangup=detach_terminal) as owner:
        if owner.warning:
            sys.stderr.write(f"zoea: {owner.warning}\n")
        output.say(await prepare_own_swarm(owner.api, options, where, loaded.settings))
        announce(server, "commands the swarm", "The swarm runs here: ctrl+c ends it, and nothing stored is lost.")
        await owner.ending.wait()
        await close_within(CLOSE_TIMEOUT_S, server.close, "the browser server")


async def _serve_running_swarm(server: BrowserServer, options: StartOptions, where: Places) -> None:
    """Attach to the swarm of another process, and to each that follows it."""
    ending = _end_at_signals()
    if options.world:
        sys.stderr.write("zoea: --world has no effect: a running swarm keeps the world it was started with\n")
    async with await attach(where) as swarm:
        output.say(await prepare_swarm(swarm, options, where))
        announce(
            server, "commands the swarm", f"Attached to the swarm of process {swarm.pid}: ctrl+c leaves it running."
        )
        await _wait_for_first(swarm.gone(), ending.wait())
    while not ending.is_set():
        _say("The swarm's owner went away; waiting for another one.")
        successor = await _attach_successor(where, ending)
        if successor is None:
            if not ending.is_set():
                _say("The running swarm has ended.")
            return
        await server.end_cockpits()  # they show the swarm that ended; their pages open the new one
        async with successor:
            await _wait_for_first(successor.gone(), ending.wait())


async def _attach_successor(where: Places, ending: asyncio.Event) -> RemoteSwarm | None:
    """Attach to the next owner of the workspace. None after `SUCCESSOR_TIMEOUT_S` or when `ending` is set."""
    deadline = asyncio.get_running_loop().time() + SUCCESSOR_TIMEOUT_S
    while not ending.is_set() and asyncio.get_running_loop().time() < deadline:
        try:
            return await attach(where)
        except NoRunningSwarm:
            await _wait_for_first(asyncio.sleep(0.1), ending.wait())
    return None


async def _wait_for_first(*waits: Coroutine[Any, Any, Any]) -> None:
    """Return when the first of the coroutines has ended; cancel the others."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def announce(server: BrowserServer, allows: str, consequence: str) -> None:
    """Print the address, and a warning where other machines can reach it."""
    _say(f"The cockpit is at {server.address}")
    _say(f"Everyone who has this address {allows}. {consequence}")
    if not server.is_loopback:
        sys.stderr.write(
            "zoea: other machines can reach this address, and the connection is not encrypted; "
            "`ssh -L 8000:127.0.0.1:8000` to this machine works without --host\n"
        )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
