"""A swarm that reaches nothing beyond itself: what a Commander has where nobody gave it more."""

from __future__ import annotations

from zoea.model.errors import UsageError
from zoea.model.values import McpView, ProviderView, ToolTrial, UpstreamView


class Nothing:
    """A body of `zoea.model.ports.Outside` without upstreams and providers."""

    async def upstreams(self) -> tuple[UpstreamView, ...]:
        return ()

    async def providers(self) -> tuple[ProviderView, ...]:
        return ()

    async def reconnect(self, name: str) -> None:
        raise UsageError(f"no upstream {name}")

    async def try_tool(self, upstream: str, tool: str, arguments: str) -> ToolTrial:
        raise UsageError(f"no upstream {upstream}")

    async def mcp(self) -> McpView:
        return McpView()

    async def serve_mcp(self, on: bool) -> McpView:
        raise UsageError("this swarm cannot serve MCP clients")
