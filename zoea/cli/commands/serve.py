"""`zoea serve`: the cockpit in any number of browsers, over the one running swarm."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from zoea.cli.options import Workspace
from zoea.model.errors import UsageError
from zoea.runtime.run_options import RunOptions
from zoea.settings.paths import places

cockpit: tuple[str, ...] = ()
"""The command line of one cockpit, put here by `zoea.__main__`: the two fronts know nothing of each other."""


def serve(
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; the default reaches this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8000,
    myses: Annotated[
        int | None, typer.Option(min=0, max=2000, metavar="N", help="N myses in total; missing ones are created.")
    ] = None,
    template: Annotated[str, typer.Option(help="What new myses are.")] = "",
    provider: Annotated[str, typer.Option(help="Where the model of new myses is.")] = "",
    model: Annotated[str, typer.Option(help="The model of new myses.")] = "",
    world: Annotated[str, typer.Option(metavar="reef", help="Run the sandbox world beside the swarm.")] = "",
    start_swarm: Annotated[bool, typer.Option("--start-swarm", help="Start every idle mysis.")] = False,
    workspace: Workspace = "",
) -> int:
    """Show the cockpit in browsers.

    Beside a running swarm this attaches to it; where none runs, this owns the swarm, and ctrl+c ends it.
    The address that is printed holds a token: whoever has it commands the swarm. It is a new one each time.
    Closing a tab, or q in it, ends that cockpit and never the swarm.
    """
    from zoea.cli.serve_session import served

    if world not in ("", "reef"):
        raise UsageError(f"there is no world {world!r}", hint="The world's name is reef.")
    if not host.strip():
        raise UsageError("--host names no address", hint="Leave it out for this machine alone; 0.0.0.0 is any.")
    options = RunOptions(
        myses=myses,
        template=template,
        provider=provider,
        model=model,
        world=world,
        start_swarm=start_swarm,
        workspace=workspace,
    )
    asyncio.run(served(options, places(workspace), cockpit=cockpit, host=host, port=port))
    return 0
