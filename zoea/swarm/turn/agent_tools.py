"""Offers Zoea's own tools at the gateway while the process of an agent lives."""

from __future__ import annotations

from typing import Protocol

from zoea.agents.agent_session import AgentSession
from zoea.model.ports import ModelGateway, ToolsAccess, ToolSession
from zoea.model.request import AnswerCall, ToolResult, ToolSpec
from zoea.swarm.turn.agent_own_calls import OVER


class TurnOfCalls(Protocol):
    """The turn that calls belong to."""

    @property
    def is_over(self) -> bool: ...

    async def call_tool(self, call: AnswerCall) -> ToolResult: ...


class ProcessTools:
    """The `AgentTools` of one process.

    Attributes:
        were_listed: The agent has asked which tools there are.
        turn: The open turn, which the calls belong to.
        session: Of the process, once it has begun.
    """

    def __init__(self, gateway: ModelGateway, masks: ToolSession) -> None:
        self.were_listed = False
        self.turn: TurnOfCalls | None = None
        self.session: AgentSession | None = None
        self.access: ToolsAccess | None = None
        self._gateway = gateway
        self._masks = masks

    @property
    def is_open(self) -> bool:
        return self.session is None or self.session.is_open

    def list_tools(self) -> tuple[ToolSpec, ...]:
        """See `AgentTools.list_tools`."""
        self.were_listed = True
        return self._masks.own_tools()

    async def call_tool(self, name: str, arguments: str) -> ToolResult:
        """See `AgentTools.call_tool`; between turns nothing is called."""
        if self.turn is None or self.turn.is_over:
            return OVER
        return await self.turn.call_tool(AnswerCall(name, arguments))

    async def serve(self) -> ToolsAccess:
        """Begin to serve the tools to the agent. Raises ZoeaError."""
        self.access = await self._gateway.serve_tools(self)
        return self.access

    async def end(self) -> None:
        """Stop serving the tools, because the process of the agent has ended."""
        access, self.access = self.access, None
        if access is not None:
            await self._gateway.end_tools(access)
