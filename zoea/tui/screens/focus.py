"""The conversation of one mysis: streamed, searchable, with older turns read on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace
from textual import getters, on, work
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.content import Content
from textual.css.query import NoMatches
from textual.screen import Screen

from zoea.model.enums import Activity, OpenedBy
from zoea.model.errors import StoreError
from zoea.model.status import StatusWord, wants_review
from zoea.model.values import Event, MysisView, ReceiptLine
from zoea.queries.conversation import read_content
from zoea.queries.status_phrases import describe_preparation
from zoea.text.control_characters import reveal
from zoea.tui import number_format
from zoea.tui.commands import swarm_commands
from zoea.tui.commands.action import ActionContext, ActionPlace, Handlers, has_worktree
from zoea.tui.conversation.blocks import BlockKind, Symbols
from zoea.tui.conversation.conversation_reader import (
    ConversationReader,
    ConversationSource,
    TurnWindow,
    conversation_version,
)
from zoea.tui.conversation.focus_lines import build_failure_lines, build_status_pieces, build_title_pieces, shorten
from zoea.tui.conversation.line_index import LinePosition
from zoea.tui.screens.base import NARROW, CockpitScreen
from zoea.tui.screens.find import FindController
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.swarm_list.needs_you_panel import find_next_in_need
from zoea.tui.text_layout import count_cells
from zoea.tui.theme.role_styles import ConversationPalette
from zoea.tui.widgets.clickable_text import TextBlock, put_titles
from zoea.tui.widgets.context_panel import ContextPanel
from zoea.tui.widgets.conversation_view import ConversationView
from zoea.tui.widgets.live_answer import LiveAnswer
from zoea.tui.widgets.message_prompt import MessagePrompt

LIVE_SHARE = 2
_EDGES = 6
"""Columns of the frame and the margins."""


class Bookmark(Struct, frozen=True):
    """A reader's place in a conversation: the turn, the top line, the block under the cursor."""

    turn: int
    spot: LinePosition
    cursor: str


class FocusScreen(CockpitScreen[None]):
    """Shows the conversation of one mysis at a time.

    Args:
        mysis_id: The mysis to show.
        turn: Open at this turn instead of the reader's last place.
        key: Open this block and scroll to it (`memory 7`, `thought 7`, `call 3`).
        words: Highlight these words in it.
        result: Show what the mysis reports, the files it changed and its calls, instead of the conversation.
    """

    CSS_PATH = "focus.tcss"
    TITLES: ClassVar[dict[str, str]] = {"app.find": "find"}
    ZOOM_NOTE: ClassVar[str] = ""
    PLACE = ActionPlace.FOCUS

    def __init__(
        self, mysis_id: int, *, turn: int | None = None, key: str = "", words: str = "", result: bool = False
    ) -> None:
        super().__init__()
        self._shows_result = result
        self.mysis_id = mysis_id
        self._start: tuple[int | None, str, str] = (turn, key, words)
        self._prompt = MessagePrompt(id="prompt")
        self._finder = FindController(self, self.source, self.load_around, self.share_room)
        self._reading = ConversationReader(self.source, self._shown, self._failed)
        self._worth: tuple[Any, ...] = ()
        self._last_view: MysisView | None = None
        self._live_ends = False
        self._result_turn = 0
        self._is_ready = False
        self._wrong = TextBlock(id="wrong")

    @classmethod
    def open_over(cls, cockpit: Cockpit) -> Screen[Any]:
        (view, *_) = cockpit.action_context().targets
        return cls(view.id, result=view.status is StatusWord.DONE)

    def bind_actions(self) -> Handlers:
        return {
            "app.find": self._finder.open,
            "swarm.broadcast": self._prompt.write_to_many,
            "swarm.broadcast-all": self._prompt.write_to_all,
            "app.zoom": self._toggle_zoom,
            "focus.previous-turn": lambda: self._go_to_turn(-1),
            "focus.next-turn": lambda: self._go_to_turn(1),
            "focus.previous-mysis": lambda: self._show_other_mysis(-1),
            "focus.next-mysis": lambda: self._show_other_mysis(1),
            "focus.next-hit": lambda: self._finder.step(1),
            "focus.previous-hit": lambda: self._finder.step(-1),
            "focus.verbose": self._toggle_verbose,
            "focus.dismiss": lambda: self._give(swarm_commands.DISMISS),
            "focus.next-in-need": self._show_next_in_need,
            "focus.result": lambda: self._show_result(not self._shows_result),
            "focus.copy": self._copy,
            "focus.keep": self._toggle_kept,
            "focus.message": lambda: self._prompt.write_to(self.action_context().targets[0]),
            "focus.stop": lambda: self._give(swarm_commands.STOP),
            "focus.relaunch": lambda: self._give(swarm_commands.RELAUNCH),
            "focus.pause": lambda: swarm_commands.toggle_pause(self.cockpit, self.action_context().targets),
        }

    def compose_body(self) -> ComposeResult:
        with Container(id="body"):
            with Vertical(id="talk", classes="panel"):
                palette = ConversationPalette(self.cockpit.theme_spec, no_color=self.app.no_color)
                yield ConversationView(palette, self._reading, id="transcript")
                yield LiveAnswer(id="live")
                yield self._wrong
                yield self._finder.bar
            yield ContextPanel(self.source, self._failed, id="side")
        yield self._prompt

    def on_mount(self) -> None:
        self._is_ready = True
        self.transcript.show_reasoning(self.cockpit.early.show_reasoning)
        self.transcript.focus()
        self._begin()
        self.feed_changed(frozenset())  # an answer may be streaming already

    def on_unmount(self) -> None:
        self._reading.forget()
        self._finder.stop()

    transcript = getters.query_one(ConversationView)
    live = getters.query_one(LiveAnswer)
    side = getters.query_one(ContextPanel)
    _talk = getters.query_one("#talk", Vertical)

    @property
    def _has_widgets(self) -> bool:
        """Whether all widgets exist; news may arrive before them and after their removal."""
        try:
            parts = (self.transcript, self.live, self.side)
        except NoMatches:
            return False
        return self._is_ready and bool(parts)

    @property
    def view(self) -> MysisView | None:
        """The mysis, or its last known state after it was deleted."""
        found = self.cockpit.feed.myses.get(self.mysis_id)
        if found is not None:
            self._last_view = found
        return self._last_view

    def action_context(self) -> ActionContext:
        view = self.cockpit.feed.myses.get(self.mysis_id)
        context = self.cockpit.build_context(view, finding=self._finder.has_hits)
        return replace(context, in_need=len(self.needing))

    @property
    def needing(self) -> Sequence[MysisView]:
        return [view for view in super().needing if view.id != self.mysis_id]

    @property
    def holds_keys(self) -> bool:
        return any(prompt.is_sending for prompt in self.query(MessagePrompt))

    # Reading.

    def source(self) -> ConversationSource | None:
        opened = self.cockpit.opened
        if opened is None:
            return None
        ticks = partial(self.cockpit.tick_names.read_ticks, opened.places)
        limit = self.view.turn_limit if self.view is not None else 0
        return ConversationSource(opened.database, self.mysis_id, self.cockpit.now(), ticks, limit)

    def _begin(self) -> None:
        """Start to read at the wanted turn, at the bookmark, or at the end."""
        turn, key, words = self._start
        self._start = (None, "", "")
        bookmark = self.cockpit.bookmarks.get(self.mysis_id)
        self._mark_result(self._shows_result)
        if self._shows_result:
            self._reading.newest()
        elif turn is not None:
            if key or words:
                self.transcript.mark(words, key)
            self._reading.around(turn, "found" if key else "turn")
        elif isinstance(bookmark, Bookmark):
            self._reading.around(bookmark.turn, "bookmark")
        else:
            self._reading.newest()
        # After styles are applied it is known whether the side is shown.
        self.call_after_refresh(self.side.changed)

    def _shown(self, window: TurnWindow, why: str) -> None:
        if not self._has_widgets:
            return
        if why == "newest":
            self._result_turn = window.last_number
        elif self._shows_result and window.last_number > self._result_turn:
            self._result_turn = window.last_number
            if window.turns[-1].opened_by is OpenedBy.PROMPT:
                self._mark_result(False)  # it works on something else
                why = "newest"
        at: LinePosition | None = None
        bookmark = self.cockpit.bookmarks.get(self.mysis_id)
        if why == "bookmark" and isinstance(bookmark, Bookmark):
            at = bookmark.spot
            self.transcript.choose(bookmark.cursor)
        elif why == "turn" or why == "found":
            at = next(
                (LinePosition(f"turn {turn.id}") for turn in window.turns if turn.number == self._reading.jump), None
            )
        if self._live_ends:
            self._live_ends = False
            self.live.clear()
        if self._shows_result:
            blocks = window.result
            is_first = why == "newest" and bool(blocks)
            self.transcript.show(
                blocks, has_older=False, has_newer=False, at=LinePosition(blocks[0].key) if is_first else None
            )
            if is_first:
                self.transcript.choose(blocks[0].key)
        else:
            self.transcript.show(
                window.blocks, has_older=window.has_older, has_newer=window.has_newer, at=at, to_end=why == "newest"
            )
        self._tell_what_is_wrong()
        if not window.turns and not window.waiting:
            self._subtitle()

    def _failed(self, error: StoreError) -> None:
        self.cockpit.show_error(error)
        self._subtitle()

    def on_conversation_view_moved(self, event: ConversationView.Moved) -> None:
        self._subtitle()
        self.share_room()

    # News.

    def feed_changed(self, ids: frozenset[int]) -> None:
        if not self._has_widgets or (ids and self.mysis_id not in ids):
            return
        super().feed_changed(ids)
        self._prompt.retarget()
        view = self.view
        if view is None:
            return
        self._tell_what_is_wrong()
        if wants_review(view) is not ("focus.dismiss" in self._retitled):
            self.retitle("focus.dismiss", "mark reviewed" if wants_review(view) else "")
        if (view.streaming or view.thinking) and view.activity is Activity.LLM:
            self._live_ends = False
            self.live.think(view.thinking)
            if view.streaming:
                self.live.say(view.streaming, view.streamed_before)
        elif self.live.is_live:
            # It stays until the stored answer was read, so that nothing flickers.
            self._live_ends = True
        else:
            self.live.prepare(describe_preparation(view))
        if (now := conversation_version(view)) != self._worth:
            self._worth = now
            self._reread()

    def _tell_what_is_wrong(self) -> None:
        if (view := self.view) is None:
            return
        window = self._reading.window
        is_told = bool(window.blocks) and window.blocks[-1].kind is BlockKind.OUTCOME and not window.has_newer
        key, now, room = self.cockpit.key("focus.relaunch"), self.cockpit.now(), self.size.width - _EDGES
        wrong = build_failure_lines(view, Symbols.bad, key, now, width=room, is_told=is_told)
        self._wrong.put(wrong)
        self._wrong.display = bool(wrong)

    def shows_message_to(self, recipients: Sequence[ReceiptLine]) -> bool:
        """Return whether the end of the conversation is in sight, where it stands."""
        view, at_end = self.view, self._has_widgets and self.transcript.follows and not self.transcript.has_newer
        is_own = view is not None and [line.mysis for line in recipients] == [view.name]
        return is_own and at_end and not self._shows_result

    def feed_event(self, event: Event) -> None:
        if event.mysis_id == self.mysis_id and self._has_widgets:
            if event.id:
                self._reread()
            else:
                self.side.changed()

    def _reread(self) -> None:
        self._reading.changed()
        self._finder.mark_outdated()
        self.side.changed()

    def tick(self) -> None:
        super().tick()
        if not self._has_widgets:
            return
        if self._reading.window.is_running_a_call:
            self._reread()
        self._tell_what_is_wrong()
        self.side.tick()

    def theme_changed(self) -> None:
        super().theme_changed()
        self.transcript.draw_as(ConversationPalette(self.cockpit.theme_spec, no_color=self.app.no_color))

    def on_resize(self) -> None:
        self.call_after_refresh(self.share_room)

    @on(LiveAnswer.Grown)
    def share_room(self) -> None:
        """Place the live answer below the conversation, with up to half of the lines."""
        if not self._has_widgets:
            return
        transcript, live = self.transcript, self.live
        room = self._talk.content_size.height - (1 if self._finder.bar.display else 0)
        if not live.display or room <= 0:
            height: int | str = "1fr"
        else:
            said = min(max(1, live.virtual_size.height), max(3, room // LIVE_SHARE))
            live.styles.max_height = max(3, room // LIVE_SHARE)
            height = transcript.height if transcript.height + said <= room else "1fr"
        if str(transcript.styles.height) != str(height):
            transcript.styles.height = height

    @property
    def request_id(self) -> int | None:
        """The request of the block under the cursor, at which the inspector opens."""
        block = self.transcript.cursor
        return block.request_id if block is not None else None

    # Header and subtitle.

    def header_pieces(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        left, right = super().header_pieces()
        view = self.view
        if view is None:
            return left, right
        order = self.cockpit.feed.in_order()
        place = next((at for at, one in enumerate(order, 1) if one.id == self.mysis_id), 0)
        who = build_title_pieces(view, place, len(order), self.cockpit.now(), self.cockpit.glyphs)
        still = [(f" {text.strip()} ", role) for text, role in self.halt_pieces()]
        need = [(" · ", "quiet"), *others] if (others := self.need_pieces()) else []
        said = [left[0], *still, *who, *need]
        for spare in (*still[1:], *who[2:4]) if still else ():  # which mysis it is matters more
            if count_cells(said) > self.size.width:
                said.remove(spare)
        said = shorten(said, self.size.width)
        if self.size.width < NARROW and count_cells(said) + count_cells(right) > self.size.width:
            return said, []  # the activity of this mysis matters more here than the cost of all
        return said, right

    def _subtitle(self) -> None:
        if not self._has_widgets:
            return
        transcript, window = self.transcript, self._reading.window
        block = transcript.cursor
        status = build_status_pieces(
            unseen=transcript.unseen,
            turns=window.last_number,
            turn=block.turn if block is not None else 0,
            is_empty=not window.turns and not window.waiting,
            is_loaded=self._reading.is_loaded,
            has_failed=self._reading.has_failed,
            follows=transcript.follows,
            verbose=transcript.verbose,
        )
        put_titles(self._talk, self._talk._border_title, Content.assemble(*status))

    # Finding and copying.

    @work
    async def on_conversation_view_whole_wanted(self, event: ConversationView.WholeWanted) -> None:
        """Read the text of a memory, and show it in full."""
        text = await self.read(read_content, event.memory_id)
        shown = await asyncio.to_thread(reveal, text or "")
        for transcript in self.query(ConversationView) if text is not None else ():  # none where the screen was left
            transcript.put_whole(event.memory_id, shown)

    @work
    async def _copy(self) -> None:
        if (block := self.transcript.cursor) is None:
            return
        text: str | None = block.copy
        if block.missing and block.memory_id is not None:
            text = await self.read(read_content, block.memory_id)
        if text is not None:
            self.cockpit.copy_to_clipboard(text)
            self.notify(f"{block.kind} copied, {number_format.size(len(text))}", markup=False, timeout=2)

    # Moving.

    def _go_to_turn(self, by: int) -> None:
        """Go to the turn before or after. Read the one before where it is not loaded."""
        if self._shows_result:
            self._show_result(False)
            return
        if self.transcript.turn_beside(by):
            return
        if by > 0:
            self.transcript.action_edge(1)
        elif self._reading.window.has_older:
            self._reading.around(self._reading.window.turns[0].number - 1, "turn")

    def load_around(self, turn: int) -> None:
        """Read the turns around one that is not loaded, and show them as the conversation."""
        self._mark_result(False)
        self._reading.around(turn, "found")

    def _show_other_mysis(self, by: int) -> None:
        order = [view.id for view in self.cockpit.feed.in_order()]
        if not order:
            return
        at = order.index(self.mysis_id) if self.mysis_id in order else 0
        self._show_mysis(order[(at + by) % len(order)])

    def _show_next_in_need(self) -> None:
        found = find_next_in_need([view.id for view in self.cockpit.feed.roster.in_need], self.mysis_id)
        if found is None:
            self.notify("No other mysis needs you", markup=False)
        else:
            self._show_mysis(found)

    def _show_mysis(self, mysis_id: int) -> None:
        self._keep_place()
        self._finder.close()
        self._prompt.close()
        self.mysis_id = mysis_id
        self._worth, self._last_view, self._live_ends = (), None, False
        self._shows_result = self.view is not None and self.view.status is StatusWord.DONE
        self._reading.forget()
        self.transcript.reset()
        self.live.clear()
        self.side.reset()
        self._begin()
        self.feed_changed(frozenset())

    def _show_result(self, on: bool) -> None:
        """Show the result, or the conversation where the reader left it."""
        self._keep_place()
        self._shows_result = on
        self._reading.forget()
        self.transcript.reset()
        self._begin()

    def _mark_result(self, on: bool) -> None:
        self._shows_result = on
        self._talk.border_title = "RESULT" if on else "CONVERSATION"
        self.retitle("focus.result", "conversation" if on else "")

    def _keep_place(self) -> None:
        if self._shows_result:
            return
        spot, cursor = self.transcript.spot, self.transcript.cursor
        number = next((block.turn for block in self._reading.window.blocks if spot and block.key == spot.key), 0)
        if spot is None or not number:
            self.cockpit.bookmarks.pop(self.mysis_id, None)
        else:
            self.cockpit.bookmarks[self.mysis_id] = Bookmark(number, spot, cursor.key if cursor is not None else "")

    def back(self) -> None:
        if self._prompt.is_open:
            self._prompt.close()
        elif self._finder.bar.display:
            self._finder.close()
        else:
            self._keep_place()
            self.cockpit.pop_screen()

    # Actions on what is shown.

    def _toggle_zoom(self) -> None:
        """Show the conversation alone, or the panels beside it again."""
        if not self.has_class("-wide"):
            self.notify("The conversation is the only panel here", markup=False)
            return
        self.zoomed = "" if self.zoomed else "talk"
        self.set_class(bool(self.zoomed), "-zoomed")
        self.redraw_bars()

    def _toggle_verbose(self) -> None:
        self.transcript.set_verbose(not self.transcript.verbose)
        self.retitle("focus.verbose", "brief" if self.transcript.verbose else "")
        self._subtitle()

    def _give(self, command: swarm_commands.BatchCommand) -> None:
        swarm_commands.give(self.cockpit, self.action_context().targets, command, shows_result=False)

    def _toggle_kept(self) -> None:
        """Keep the message under the cursor, or keep it no longer."""
        block = self.transcript.cursor
        if block is None or block.memory_id is None:
            self.notify("Only a message, an answer or a result can be kept", markup=False)
            return
        memory_id, turn, on = block.memory_id, block.turn, not block.is_kept
        done = "Kept no longer"
        if on:
            done = "Kept: each request shows it word for word, if its template has the strategy window"

        async def keep() -> None:
            await self.cockpit.api.preserve(memory_id, on)
            self._reading.again(turn)
            self.notify(done, markup=False)

        self.cockpit.ask_swarm(keep())

    def on_screen_resume(self) -> None:
        self.transcript.show_reasoning(self.cockpit.early.show_reasoning)
        self._prompt.resume()

    def on_message_prompt_closed(self, event: MessagePrompt.Closed) -> None:
        self.transcript.focus()


class ResultScreen(FocusScreen):
    """Shows one mysis as `FocusScreen` does, beginning with its result."""

    @classmethod
    def open_over(cls, cockpit: Cockpit) -> Screen[Any]:
        """Open the changes instead where it works in a worktree, from the list. A key there leads to the report."""
        from zoea.tui.screens.review import ReviewScreen

        targets = cockpit.action_context().targets
        if has_worktree(targets) and not isinstance(cockpit.screen, ReviewScreen):
            return ReviewScreen([view.id for view in targets])
        return FocusScreen(targets[0].id, result=True)
