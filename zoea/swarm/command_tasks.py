"""Commands that run to their end, also where their caller leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class CommandTasks:
    """Commands under way.

    What a command stores may be committed when its caller is cancelled: a front that disconnects, a mysis that is
    stopped. The rest of the command is done all the same, so that the swarm in memory is as the stored one.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of the command. Cancelling this wait does not cancel the command."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved; a caller that waits gets it
