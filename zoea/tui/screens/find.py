"""Finds words in one conversation and steps from hit to hit. Each search interrupts the one before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from zoea.model.errors import StoreError
from zoea.queries.search_reader import ConversationFinder, FindResult
from zoea.tui.conversation.conversation_reader import (
    ConversationSource,
    format_hit_count,
    hit_block_key,
    select_first_hit,
)
from zoea.tui.screens.base import BaseScreen
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.widgets.conversation_view import ConversationView
from zoea.tui.widgets.search_inputs import FindBar


class FindController:
    """Serves a screen with a `Transcript` and a `FindBar`.

    Args:
        source: Returns the conversation to search; None while the swarm is not open.
        load_turn: Reads the turn with a hit, where the transcript does not hold it.
        bar_toggled: Called after the find bar was opened or closed.

    Attributes:
        found: The hits; None while nothing is searched for.
    """

    def __init__(
        self,
        screen: BaseScreen[Any],
        source: Callable[[], ConversationSource | None],
        load_turn: Callable[[int], None],
        bar_toggled: Callable[[], None],
    ) -> None:
        self.found: FindResult | None = None
        self._screen = screen
        self._source = source
        self._load_turn = load_turn
        self._bar_toggled = bar_toggled
        self._finder: ConversationFinder | None = None
        self._at = 0
        self._is_outdated = False
        self.bar = FindBar(self.search, self.step, id="find")
        """The input for the words."""

    @property
    def has_hits(self) -> bool:
        """Whether there is a hit to step to."""
        return self.found is not None and bool(self.found.hits)

    @property
    def _transcript(self) -> ConversationView:
        return self._screen.query_one(ConversationView)

    def open(self) -> None:
        """Show the find bar."""
        self.bar.open()
        self._screen.call_after_refresh(self._bar_toggled)

    def search(self, words: str, go: bool) -> None:
        """Search for words. With `go`, go to the first hit, and leave the input."""
        if go:
            self._transcript.focus()
        self._screen.run_worker(DeferredWork(lambda: self._find(words, go=go)), group="find", exclusive=True)

    def step(self, by: int) -> None:
        """Go to a later or an earlier hit."""
        if self.has_hits:
            self._go_to(self._at + by)

    def mark_outdated(self) -> None:
        """Search again next time, because the conversation has grown."""
        self._is_outdated = True

    def stop(self) -> None:
        """Interrupt the running search."""
        if self._finder is not None:
            self._finder.stop()

    def close(self) -> None:
        """End the search and hide the find bar."""
        self.stop()
        self.found = None
        self.bar.close()
        self._transcript.mark("")
        self._transcript.focus()
        self._screen.redraw_bars()
        self._screen.call_after_refresh(self._bar_toggled)

    async def _find(self, words: str, *, go: bool) -> None:
        source = self._source()
        if source is None:
            return
        self.stop()
        if self.found is None or self.found.words != words or self._is_outdated:
            self._finder, self._is_outdated = ConversationFinder(source.database), False
            try:
                found = await asyncio.to_thread(self._finder.find, source.mysis_id, words)
            except StoreError as error:
                self._screen.cockpit.show_error(error)
                return
            if found is None or not self.bar.display:
                return
            transcript = self._transcript
            self.found = found
            here = transcript.cursor
            self._at = select_first_hit(found, None if transcript.follows or here is None else here.turn)
            transcript.mark(found.words)
        if go and self.found.hits:
            self._go_to(self._at)
        self.bar.tell(format_hit_count(self.found, self._at))
        self._screen.redraw_bars()

    def _go_to(self, at: int) -> None:
        assert self.found is not None
        self._at = at % len(self.found.hits)
        hit = self.found.hits[self._at]
        key = hit_block_key(hit)
        self._transcript.mark(self.found.words, key)
        if not self._transcript.holds(key):
            self._load_turn(hit.turn_number)
        self.bar.tell(format_hit_count(self.found, self._at))
