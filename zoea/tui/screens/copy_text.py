"""What is too long to be read with its conversation: read whole where somebody opens or copies it.

A mixin of a screen that shows a transcript.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from zoea.model.errors import StoreError
from zoea.queries.conversation import read_content
from zoea.text.control_characters import strip
from zoea.tui import number_format
from zoea.tui.conversation.blocks import BlockKind
from zoea.tui.state.deferred_worker import Beside
from zoea.tui.widgets.conversation_view import ConversationView

if TYPE_CHECKING:
    from zoea.tui.screens.base import CockpitScreen


class Copying:
    """What `y` does, and opening a block that was cut."""

    @property
    def _copier(self) -> CockpitScreen[None]:
        return cast("CockpitScreen[None]", self)

    def on_conversation_view_whole_wanted(self, event: ConversationView.WholeWanted) -> None:
        self._copier.run_worker(Beside(lambda: self._read_whole(event.memory_id)))

    async def _read_whole(self, memory_id: int) -> None:
        text = await self._whole(memory_id)
        if text is None:
            return
        shown = await asyncio.to_thread(strip, text)
        for transcript in self._copier.query(ConversationView):  # none where the reader has left meanwhile
            transcript.put_whole(memory_id, shown)

    def do_focus_copy(self) -> None:
        block = self._copier.query_one(ConversationView).cursor
        if block is None:
            return
        if block.missing and block.memory_id is not None:
            memory_id = block.memory_id
            self._copier.run_worker(Beside(lambda: self._copy_whole(memory_id, block.kind)))
            return
        self._copy(block.copy, block.kind)

    async def _copy_whole(self, memory_id: int, kind: BlockKind) -> None:
        text = await self._whole(memory_id)
        if text is not None:
            self._copy(text, kind)

    async def _whole(self, memory_id: int) -> str | None:
        """The text of a memory; None where the swarm is not open, or the store said no, which is shown."""
        opened = self._copier.cockpit.opened
        if opened is None:
            return None
        try:
            return await asyncio.to_thread(read_content, opened.database, memory_id)
        except StoreError as error:
            self._copier.cockpit.show_error(error)
            return None

    def _copy(self, text: str, kind: BlockKind) -> None:
        self._copier.cockpit.copy_to_clipboard(text)
        self._copier.notify(f"{kind} copied, {number_format.size(len(text))}", markup=False, timeout=2)
