"""Finding words in one conversation: `/`, the places that hold them, `n` and `N` from one to the next.

A mixin of Focus. Each search interrupts the one before.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, cast

from zoea.model.errors import StoreError
from zoea.queries.find_in_conversation import ConversationFinder, FindResult
from zoea.tui.conversation.conversation_reader import format_hit_count, hit_block_key, select_first_hit
from zoea.tui.state.deferred_worker import Beside
from zoea.tui.widgets.search_inputs import FindBar

if TYPE_CHECKING:
    from zoea.tui.screens.focus import Focus


class Finding:
    """`found` is what the words were found in, None while nothing is looked for."""

    TITLES: ClassVar[dict[str, str]] = {"app.find": "find"}
    found: FindResult | None = None
    _finder: ConversationFinder | None = None
    _at = 0
    _is_old = False

    @property
    def _focus(self) -> Focus:
        return cast("Focus", self)

    @property
    def find_bar(self) -> FindBar:
        return self._focus.query_one(FindBar)

    def do_app_find(self) -> None:
        self.find_bar.open()
        self._focus.call_after_refresh(self._focus.share_room)

    def do_focus_next_hit(self) -> None:
        self._go_to(self._at + 1)

    def do_focus_previous_hit(self) -> None:
        self._go_to(self._at - 1)

    def on_find_bar_wanted(self, event: FindBar.Wanted) -> None:
        self._focus.run_worker(Beside(lambda: self._find(event.words)), group="find", exclusive=True)

    def on_find_bar_chosen(self, event: FindBar.Chosen) -> None:
        self._focus.run_worker(Beside(lambda: self._find(event.words, go=True)), group="find", exclusive=True)
        self._focus.transcript.focus()

    def on_find_bar_other(self, event: FindBar.Other) -> None:
        if self.found is not None and self.found.hits:
            self._go_to(self._at + event.by)

    def found_changed(self) -> None:
        """The conversation has grown: what was found may not be all."""
        self._is_old = True

    def stop_finding(self) -> None:
        """End a search that runs."""
        if self._finder is not None:
            self._finder.stop()

    def end_finding(self) -> None:
        """Nothing is looked for any more."""
        self.stop_finding()
        self.found = None
        self.find_bar.close()
        self._focus.transcript.mark("")
        self._focus.transcript.focus()
        self._focus.redraw_bars()
        self._focus.call_after_refresh(self._focus.share_room)

    async def _find(self, words: str, *, go: bool = False) -> None:
        source = self._focus.source()
        if source is None:
            return
        self.stop_finding()
        if self.found is None or self.found.words != words or self._is_old:
            self._finder, self._is_old = ConversationFinder(source.database), False
            try:
                found = await asyncio.to_thread(self._finder.find, source.mysis_id, words)
            except StoreError as error:
                self._focus.cockpit.show_error(error)
                return
            if found is None or not self.find_bar.display:
                return
            transcript = self._focus.transcript
            self.found = found
            here = transcript.cursor
            self._at = select_first_hit(found, None if transcript.follows or here is None else here.turn)
            transcript.mark(found.words)
        if go and self.found.hits:
            self._go_to(self._at)
        self.find_bar.tell(format_hit_count(self.found, self._at))
        self._focus.redraw_bars()

    def _go_to(self, at: int) -> None:
        assert self.found is not None
        self._at = at % len(self.found.hits)
        hit = self.found.hits[self._at]
        key = hit_block_key(hit)
        self._focus.transcript.mark(self.found.words, key)
        if not self._focus.transcript.holds(key):
            self._focus.load_around(hit.turn_number)
        self.find_bar.tell(format_hit_count(self.found, self._at))
