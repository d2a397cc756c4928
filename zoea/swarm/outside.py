"""What a swarm reaches beyond itself, and what it has where nobody gave it more."""

from __future__ import annotations

from zoea.model.errors import UsageError
from zoea.model.ports import Outside
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


class Beyond:
    """The part of `SwarmApi` that looks beyond the swarm: whoever stands outside answers."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    async def upstreams(self) -> tuple[UpstreamView, ...]:
        return await self._outside.upstreams()

    async def providers(self) -> tuple[ProviderView, ...]:
        return await self._outside.providers()

    async def reconnect(self, name: str) -> None:
        await self._outside.reconnect(name)

    async def try_tool(self, upstream: str, tool: str, arguments: str) -> ToolTrial:
        return await self._outside.try_tool(upstream, tool, arguments)

    async def mcp(self) -> McpView:
        return await self._outside.mcp()

    async def serve_mcp(self, on: bool) -> McpView:
        return await self._outside.serve_mcp(on)
