"""`zoea acp`: lets an editor talk to a mysis, in an own or running swarm."""

from __future__ import annotations

import asyncio
import sys
from functools import partial

from zoea.model.errors import UsageError, WorkspaceHeld
from zoea.model.swarm_api import SwarmApi
from zoea.process.clock import run_on_boot_time
from zoea.process.command_line import option
from zoea.process.forced_end import detach_terminal
from zoea.process.lock import read_holder
from zoea.runtime.run_options import attach
from zoea.settings.paths import Places


def acp(
    where: Places,
    mysis: str = option("--mysis NAME", "Talk to this mysis; otherwise each new session makes one."),
    template: str = option("--template NAME", "Template of new myses."),
) -> None:
    """Let an editor talk to myses as its agent, over the Agent Client Protocol.

    The editor starts this command and talks to it over stdin and stdout. It works beside the running swarm; without
    one it runs the swarm itself, until the editor closes the connection.

    Example: zoea acp --template default
    """
    if mysis and template:
        raise UsageError("--mysis names a mysis that has its template", hint="Leave out one of the two.")
    run_on_boot_time(_serve(where, mysis, template))


async def _serve(where: Places, mysis: str, template: str) -> None:
    # Late, because the package takes half a second to load.
    from zoea.acp_server.acp_agent import ZoeaAgent
    from zoea.acp_server.acp_stdio import protocol_streams, serve_client
    from zoea.settings.layers import load

    loaded = await asyncio.to_thread(load, where)
    if template:
        loaded.templates.get(template)
    async with protocol_streams() as (reader, writer):

        async def serve(swarm: SwarmApi) -> None:
            if mysis:
                await swarm.mysis(mysis)
            names = tuple([name for name in loaded.templates.names() if not loaded.templates.is_for_world(name)])
            agent = ZoeaAgent(swarm, where.database, templates=names, mysis=mysis, template=template)
            await serve_client(agent, reader, writer)

        if read_holder(where.data) is None:
            from zoea.runtime.compose import SwarmOptions, running_swarm
            from zoea.runtime.model_discovery import load_run_settings
            from zoea.runtime.owner import own_workspace

            options = SwarmOptions(loaded=await load_run_settings(where, is_headless=True))
            try:
                swarm_of = partial(running_swarm, options=options)
                async with own_workspace(where, swarm_of, on_hangup=detach_terminal) as owner:
                    if owner.warning:
                        sys.stderr.write(f"zoea: {owner.warning}\n")
                    serving = asyncio.create_task(serve(owner.api))
                    ending = asyncio.create_task(owner.ending.wait())
                    await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
                    ending.cancel()
                    if not serving.done():
                        serving.cancel()
                    await asyncio.gather(serving, return_exceptions=owner.ending.is_set())
                return
            except WorkspaceHeld:
                if read_holder(where.data) is None:
                    raise
        async with await attach(where) as remote:
            await serve(remote)
