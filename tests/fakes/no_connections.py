"""`ConnectionApi` of a swarm without upstreams, providers and MCP server."""

from __future__ import annotations

from zoea.model.errors import UsageError
from zoea.model.swarm_api import ReloadReport
from zoea.model.values import McpView, ProviderView, ToolTrial, UpstreamView


class NoConnections:
    """Lists nothing and refuses the rest."""

    async def upstreams(self) -> tuple[UpstreamView, ...]:
        return ()

    async def providers(self) -> tuple[ProviderView, ...]:
        return ()

    async def reconnect(self, name: str) -> None:
        raise UsageError(f"no upstream {name}")

    async def reload(self) -> ReloadReport:
        return ReloadReport()

    async def try_tool(self, upstream: str, tool: str, arguments: str) -> ToolTrial:
        raise UsageError(f"no upstream {upstream}")

    async def forget_facts(self, provider: str, model: str = "") -> int:
        return 0

    async def mcp(self) -> McpView:
        return McpView()

    async def serve_mcp(self, on: bool) -> McpView:
        raise UsageError("this swarm cannot serve MCP clients")
