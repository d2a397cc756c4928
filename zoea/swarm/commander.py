"""The commands of a swarm in this process, called directly or through the socket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from zoea.swarm.approval_commands import ApprovalCommands
from zoea.swarm.builtin_backend import SwarmBackend
from zoea.swarm.message_commands import MessageCommands
from zoea.swarm.mysis_commands import MysisCommands
from zoea.swarm.swarm import Swarm
from zoea.swarm.topic_commands import TopicCommands


class Commander(MysisCommands, MessageCommands, TopicCommands, ApprovalCommands):
    """Joins the four parts of `CoreSwarmApi`. Create it with `open`; end its swarm with `close`.

    `builtin_backend` serves Zoea's own tools.
    """

    def __init__(self, swarm: Swarm) -> None:
        super().__init__(swarm)
        swarm.services.publisher = self
        self.builtin_backend = SwarmBackend(swarm, self, self)

    @classmethod
    async def open(cls, swarm: Swarm, serve_tools: Callable[[Commander], None] = lambda commander: None) -> Self:
        """Load the stored swarm.

        Args:
            serve_tools: Called before a recovered turn can go on, so that its requests show Zoea's own tools.
        """
        commander = cls(swarm)
        serve_tools(commander)
        await swarm.load()
        await commander.catch_up_snapshot()
        return commander

    async def close(self) -> None:
        """Close every runner within a few seconds; open turns stay open, to be resumed."""
        await self.swarm.close()
