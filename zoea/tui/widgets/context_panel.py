"""Panel beside a conversation: packs of the newest request, last known state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Vertical

from zoea.model.errors import StoreError
from zoea.queries.request_summary import MysisContext, read_context
from zoea.tui.conversation import focus_lines
from zoea.tui.conversation.conversation_reader import ConversationSource
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.widgets.clickable_text import TextBlock

EVERY_US = 1_000_000


class ContextPanel(Vertical):
    """Show the context of a mysis. Reads at most once a second, and only while visible.

    Args:
        source: Returns the database and mysis to read; None while no swarm is open.
        failed: Called when the store could not be read.
    """

    def __init__(
        self, source: Callable[[], ConversationSource | None], failed: Callable[[StoreError], None], *, id: str
    ) -> None:
        super().__init__(id=id)
        self._source = source
        self._failed = failed
        self._sees_block = TextBlock(id="sees", classes="panel", title="WHAT IT SEES")
        self._state_block = TextBlock(id="state", classes="panel", title="STATE")
        self._sight: MysisContext | None = None
        self._read_at = 0
        self._is_stale = True
        self._is_reading = False

    def compose(self) -> ComposeResult:
        self._sees_block.border_subtitle = "i inspect"
        yield self._sees_block
        yield self._state_block

    def on_show(self) -> None:
        self._read()

    def changed(self) -> None:
        """Read again because the mysis changed."""
        self._is_stale = True
        self._read()

    def reset(self) -> None:
        """Clear the panel for another mysis."""
        self._sight, self._read_at = None, 0
        self.changed()

    def tick(self) -> None:
        """Update ages; read what changed since the last read."""
        if self._is_stale:
            self._read()
        self._draw()

    def _read(self) -> None:
        source = self._source()
        if self._is_reading or source is None or not self.display or not self.is_attached:
            return
        if not self._is_stale or 0 <= source.now - self._read_at < EVERY_US:
            return
        self._is_reading, self._is_stale, self._read_at = True, False, source.now
        self.run_worker(DeferredWork(lambda: self._read_beside(source)))

    async def _read_beside(self, source: ConversationSource) -> None:
        try:
            found = await asyncio.to_thread(read_context, source.database, source.mysis_id)
        except StoreError as error:
            self._failed(error)
            return
        finally:
            self._is_reading = False
        now = self._source()
        if now is not None and now.mysis_id == source.mysis_id:
            self._sight = found
            self._draw()
        else:
            self.changed()

    def _draw(self) -> None:
        source = self._source()
        if not self._sees_block.is_attached or not self._state_block.is_attached:
            return  # the panel was removed before a read returned
        if self._sight is None:
            for block in (self._sees_block, self._state_block):
                block.put([[("Reading…", "quiet")]])
            return
        limit = source.turn_limit if source is not None else 0
        self._sees_block.put(focus_lines.build_request_lines(self._sight, limit))
        if source is not None:
            self._state_block.display = bool(self._sight.snapshots)  # only some tools tell of a state
            self._state_block.put(focus_lines.build_snapshot_lines(self._sight, source.now))
