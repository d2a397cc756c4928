"""Zoea, whole: planning, streaming, every message durable in SQLite, events, and its toolbox over an MCP server.

What it stores lies on the disk of the temporary directory. Its requests differ from
the peers' in one thing: it streams, always.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

from benchmarks.peers.task import LOOK, MODEL, SYSTEM, arguments, prompt, run, seen
from benchmarks.rig import PLENTY, rig
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.registry import make
from zoea.process.clock import SystemClock
from zoea.settings.template import Template
from zoea.tools import Toolbox, ToolPolicy, UpstreamConfig


async def look(sector: str) -> str:
    return seen(sector)


def toolbox(logs: Path) -> Toolbox:
    server: MCPServer[object] = MCPServer("reef", log_level="ERROR")
    server.add_tool(look, description=LOOK, annotations=ToolAnnotations(read_only_hint=True))
    # The peers' agents have one tool: Zoea's own search and send tools are left out of the requests here too.
    only = ToolPolicy(allow=("look",))
    return Toolbox([UpstreamConfig("reef", server=server, max_parallel=512)], policies=lambda template: only, logs=logs)


async def main(settings: Mapping[str, Any] = PLENTY) -> None:
    asked = arguments()
    config = ProviderConfig("openai", base_url=asked.base_url, model=MODEL, concurrency=asked.agents)
    provider = make("reefnet", config, clock=SystemClock())
    template = Template(name="default", prompt=SYSTEM, model=MODEL)
    with tempfile.TemporaryDirectory() as logs:
        async with rig(provider, toolbox(Path(logs)), settings=settings, templates=[template]) as swarm:
            ids = await swarm.create(asked.agents + 1)

            async def turn(number: int, count: int) -> str:
                outcome = await swarm.turn(ids[number], prompt(number, count))
                return outcome if outcome == "answered" else ""

            await run(turn, asked.agents, asked.turns)


if __name__ == "__main__":
    asyncio.run(main())
