"""`zoea run`: own the workspace and run its swarm, or attach to a running swarm."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated

import typer

from zoea.cli import cockpit_start
from zoea.cli.options import Workspace
from zoea.model.errors import UsageError, WorkspaceHeld
from zoea.process.lock import read_holder
from zoea.runtime.run_options import RunOptions
from zoea.settings.paths import Places, places

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


def run(
    headless: Annotated[
        bool, typer.Option("--headless", help="Own the workspace without a screen; implies --start-swarm.")
    ] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Write events as lines, for screen readers and pipes.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write events as JSON lines, a summary as the last line.")
    ] = False,
    myses: Annotated[
        int | None,
        typer.Option(
            min=0, max=cockpit_start.MOST_MYSES, metavar="N", help="N myses in total; missing ones are created."
        ),
    ] = None,
    template: Annotated[str, typer.Option(help="Template of new myses.")] = "",
    provider: Annotated[str, typer.Option(help="Provider of new myses.")] = "",
    model: Annotated[str, typer.Option(help="Model of new myses.")] = "",
    world: Annotated[str, typer.Option(metavar="reef", help="Run the sandbox world beside the swarm.")] = "",
    duration: Annotated[
        str, typer.Option("--for", metavar="TIME", help="End after this time: 500ms, 60s, 10m, 2h.")
    ] = "",
    turns: Annotated[int | None, typer.Option(min=1, metavar="N", help="End once the swarm has ended N turns.")] = None,
    start_swarm: Annotated[bool, typer.Option("--start-swarm", help="Start every idle mysis.")] = False,
    go_on: Annotated[
        bool, typer.Option("--go-on", help="Start the myses that ran when the swarm ended; with --headless only those.")
    ] = False,
    calm: Annotated[
        bool, typer.Option("--no-animation", help="Show no animation in the cockpit during this run.")
    ] = False,
    workspace: Workspace = "",
) -> int:
    """Run the swarm, or attach to the one that runs.

    In a terminal this opens the cockpit, unless --plain, --json, --headless, --for or --turns
    is given. If a swarm runs already, this attaches to it, and quitting leaves it running.
    SIGINT and SIGTERM end a swarm cleanly; SIGHUP leaves it running without a screen.
    Example: zoea run --world reef --myses 5 --start-swarm
    """
    _check_options(plain, as_json, world)
    options = RunOptions(
        headless=headless,
        as_json=as_json,
        myses=myses,
        template=template,
        provider=provider,
        model=model,
        world=world,
        seconds=parse_duration(duration) if duration else None,
        turns=turns,
        plain=plain,
        start_swarm=start_swarm or (headless and not go_on),
        go_on=go_on,
        workspace=workspace,
        calm=calm,
    )
    return run_or_attach(options, places(workspace))


def _check_options(plain: bool, as_json: bool, world: str) -> None:
    """Raise UsageError for options that exclude each other or name no world."""
    if plain and as_json:
        raise UsageError("--plain and --json exclude each other", hint="Give one of them.")
    if world not in ("", cockpit_start.WORLD):
        raise UsageError(f"there is no world {world!r}", hint=f"The world's name is {cockpit_start.WORLD}.")


def run_or_attach(options: RunOptions, where: Places) -> int:
    """Open the cockpit, own the workspace without one, or attach to its owner.

    Raises:
        WorkspaceHeld: `--headless` is given and another process owns the workspace.
    """
    if options.wants_screen and cockpit_start.open_screen is not None:
        return cockpit_start.open_screen(options, where)
    from zoea.cli.run_session import run_attached, run_owned_swarm

    if options.headless or read_holder(where.data) is None:
        try:
            return asyncio.run(run_owned_swarm(options, where))
        except WorkspaceHeld:
            if options.headless:
                raise
    return asyncio.run(run_attached(options, where))


def parse_duration(text: str) -> float:
    """Parse `60s`, `500ms`, `10m`, `2h` or a bare number of seconds.

    Raises:
        UsageError: The text is none of these, or not above 0.
    """
    found = _DURATION.fullmatch(text.strip().lower())
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if not 0 < seconds < 10**9:
        raise UsageError(f"{text!r} is not a duration", hint="Write 500ms, 60s, 10m or 2h.")
    return seconds
