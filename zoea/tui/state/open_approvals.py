"""The open approvals of the swarm, read again after each change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from zoea.model.errors import ZoeaError
from zoea.model.values import ApprovalView, Event, MysisView


class OpenApprovals:
    """The approvals that wait, in `open`, oldest first.

    Args:
        read: Asks the swarm. It may raise ZoeaError; the known approvals stay then.
        changed: Called after `open` changed.
    """

    def __init__(self, read: Callable[[], Awaitable[tuple[ApprovalView, ...]]], changed: Callable[[], None]) -> None:
        self.open: tuple[ApprovalView, ...] = ()
        self._read = read
        self._changed = changed
        self._counts: dict[int, int] | None = {}
        self._is_stale = False
        self._task: asyncio.Task[None] | None = None

    def take_views(self, needing: Iterable[MysisView]) -> None:
        """Read again where the number of approvals of a mysis changed."""
        counts = {view.id: view.approvals for view in needing if view.approvals}
        if counts != self._counts:
            self._counts = counts
            self.refresh()

    def take_event(self, event: Event) -> None:
        if event.kind.startswith("approval."):
            self._counts = None  # the question may end before the views tell of it: then no number changes
            self.refresh()

    def refresh(self) -> None:
        """Read again; a call during a read leads to one more read."""
        self._is_stale = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while self._is_stale:
            self._is_stale = False
            try:
                found = await self._read()
            except ZoeaError:
                return  # the swarm ends; the feed reports it
            found = tuple(sorted(found, key=lambda one: (one.asked_at, one.id)))
            if found != self.open:
                self.open = found
                self._changed()

    def of(self, mysis_id: int) -> ApprovalView | None:
        """Return the oldest approval of one mysis."""
        return next((one for one in self.open if one.mysis_id == mysis_id), None)
