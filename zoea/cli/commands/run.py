"""`zoea run`: own the workspace and run its swarm, or attach to a running swarm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zoea.model.errors import UsageError, WorkspaceHeld
from zoea.process.clock import run_on_boot_time
from zoea.process.lock import read_holder
from zoea.runtime.run_options import RunOptions, refuse_new_myses, refuse_starts
from zoea.settings.paths import Places, places

open_screen: Callable[[RunOptions, Places], int] | None = None
"""Opens the cockpit. `zoea.__main__` sets it, because `cli` may not import `tui`."""


def run(options: RunOptions) -> int:
    """Run the swarm, or attach to the one that runs.

    In a terminal this opens the cockpit, unless --plain, --json, --headless, --for or --turns
    is given. If a swarm runs already, this attaches to it, and quitting leaves it running.
    ctrl+c (SIGINT) and SIGTERM end a swarm, and nothing stored is lost; when the terminal is closed (SIGHUP),
    the swarm goes on without a screen.
    With --read-only the cockpit follows a swarm that runs, or shows what is stored.

    Example: zoea run --world reef --myses 5 --start-swarm
    """
    if options.plain and options.as_json:
        raise UsageError("--plain and --json exclude each other", hint="Give one of them.")
    if options.read_only and not options.wants_screen:
        raise UsageError("--read-only opens the cockpit", hint="Give it alone, in a terminal.")
    refuse_starts(options)
    if options.headless and not options.go_on:
        options = replace(options, start_swarm=True)
    return run_or_attach(options, places(options.workspace))


command = (RunOptions, run)


def run_or_attach(options: RunOptions, where: Places) -> int:
    """Open the cockpit, own the workspace without one, or attach to its owner.

    Raises:
        WorkspaceHeld: `--headless` is given and another process owns the workspace.
        UsageError: More myses are wanted than the settings allow.
    """
    refuse_new_myses(options, where)
    if options.wants_screen and open_screen is not None:
        return open_screen(options, where)
    from zoea.cli.run_session import run_attached, run_owned_swarm

    if options.headless or read_holder(where.data) is None:
        try:
            return run_on_boot_time(run_owned_swarm(options, where))
        except WorkspaceHeld:
            if options.headless:
                raise
    return run_on_boot_time(run_attached(options, where))
