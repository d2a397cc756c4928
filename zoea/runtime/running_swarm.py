"""`SwarmApi` of a swarm in this process, joined from the commander and the connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Self

from zoea.ipc.swarm_proxy import SwarmProxy, api_functions
from zoea.model.swarm_api import ConnectionApi, CoreSwarmApi
from zoea.swarm import Commander


class RunningSwarm(SwarmProxy):
    """Passes each method to the commander or to the connections. Made by `of`."""

    def __init__(self, commander: Commander, connections: ConnectionApi) -> None:
        self.commander = commander
        self._bodies: dict[str, CoreSwarmApi | ConnectionApi] = dict.fromkeys(api_functions(CoreSwarmApi), commander)
        self._bodies |= dict.fromkeys(api_functions(ConnectionApi), connections)

    @classmethod
    def of(cls, commander: Commander, connections: ConnectionApi) -> Self:
        """Join the two. A class method, because type checkers take the forwarded methods for abstract ones."""
        return cls(commander, connections)

    async def call_method(self, method: str, arguments: dict[str, Any]) -> Any:
        """Call the body that has the method."""
        return await getattr(self._bodies[method], method)(**arguments)

    def open_stream(self, method: str, arguments: dict[str, Any]) -> AsyncIterator[Any]:
        """Open the stream of the body that has the method."""
        stream: AsyncIterator[Any] = getattr(self._bodies[method], method)(**arguments)
        return stream
