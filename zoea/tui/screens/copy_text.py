"""Copies blocks of a conversation in full, and shows cut texts in full."""

from __future__ import annotations

import asyncio
from typing import Any

from zoea.model.errors import StoreError
from zoea.queries.conversation import read_content
from zoea.text.control_characters import strip
from zoea.tui import number_format
from zoea.tui.conversation.blocks import BlockKind
from zoea.tui.screens.base import BaseScreen
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.widgets.conversation_view import ConversationView


class TextCopier:
    """Serves a screen that shows a transcript."""

    def __init__(self, screen: BaseScreen[Any]) -> None:
        self._screen = screen

    def show_whole(self, memory_id: int) -> None:
        """Read the text of a memory, and show it in full in the transcript."""
        self._screen.run_worker(DeferredWork(lambda: self._show_whole(memory_id)))

    async def _show_whole(self, memory_id: int) -> None:
        text = await self._read(memory_id)
        if text is None:
            return
        shown = await asyncio.to_thread(strip, text)
        for transcript in self._screen.query(ConversationView):  # none where the screen was left
            transcript.put_whole(memory_id, shown)

    def copy(self) -> None:
        """Copy the block under the cursor, in full."""
        block = self._screen.query_one(ConversationView).cursor
        if block is None:
            return
        if block.missing and block.memory_id is not None:
            memory_id = block.memory_id
            self._screen.run_worker(DeferredWork(lambda: self._copy_whole(memory_id, block.kind)))
            return
        self._copy(block.copy, block.kind)

    async def _copy_whole(self, memory_id: int, kind: BlockKind) -> None:
        text = await self._read(memory_id)
        if text is not None:
            self._copy(text, kind)

    async def _read(self, memory_id: int) -> str | None:
        """Return the text of a memory. None while the swarm is not open, and after an error, which is shown."""
        opened = self._screen.cockpit.opened
        if opened is None:
            return None
        try:
            return await asyncio.to_thread(read_content, opened.database, memory_id)
        except StoreError as error:
            self._screen.cockpit.show_error(error)
            return None

    def _copy(self, text: str, kind: BlockKind) -> None:
        self._screen.cockpit.copy_to_clipboard(text)
        self._screen.notify(f"{kind} copied, {number_format.size(len(text))}", markup=False, timeout=2)
