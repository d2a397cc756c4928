"""One mysis's conversation: streaming as it comes, readable from its first day, and what the mysis sees of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.content import Content

from zoea.model.enums import Activity
from zoea.model.errors import StoreError
from zoea.model.values import Event, MysisView
from zoea.tui.commands.actions import Place, Situation, bindings, of
from zoea.tui.conversation.blocks import ASCII_SYMBOLS, BlockKind, Symbols
from zoea.tui.conversation.conversation_reader import (
    ConversationReader,
    ConversationSource,
    TurnWindow,
    conversation_version,
)
from zoea.tui.conversation.focus_lines import (
    ReadingStatus,
    build_failure_lines,
    build_status_pieces,
    build_title_pieces,
    shorten,
)
from zoea.tui.conversation.line_index import LinePosition
from zoea.tui.screens.base import NARROW, CockpitScreen
from zoea.tui.screens.copy_text import Copying
from zoea.tui.screens.find import Finding
from zoea.tui.screens.message_controller import Speaking
from zoea.tui.text_layout import count_cells
from zoea.tui.theme.role_styles import ConversationPalette
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.context_panel import ContextPanel
from zoea.tui.widgets.conversation_view import ConversationView
from zoea.tui.widgets.live_answer import LiveAnswer
from zoea.tui.widgets.message_prompt import MessagePrompt
from zoea.tui.widgets.search_inputs import FindBar
from zoea.tui.widgets.status_bars import KeyFooter, PieceLine, key_name

LIVE_SHARE = 2
_PARTS = (ConversationView, LiveAnswer, FindBar, ContextPanel, MessagePrompt, KeyFooter)


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Where a reader left a conversation: the turn, the line at the top, the block under the cursor."""

    turn: int
    spot: LinePosition
    cursor: str


class Focus(Speaking, Finding, Copying, CockpitScreen[None]):
    """The screen.

    Args:
        mysis_id: Whose conversation.
        turn: Open at this turn instead of where the reader was.
        key: Bring this block into sight (`memory 7`, `thought 7`, `call 3`), opened.
        words: Mark these words in it.
    """

    CSS_PATH = "focus.tcss"
    PLACES: ClassVar[tuple[Place, ...]] = (Place.EVERYWHERE, Place.FOCUS)
    BINDINGS: ClassVar[list[BindingType]] = list(bindings(of(Place.FOCUS)))

    def __init__(self, mysis_id: int, *, turn: int | None = None, key: str = "", words: str = "") -> None:
        super().__init__()
        self.mysis_id = mysis_id
        self._start: tuple[int | None, str, str] = (turn, key, words)
        self._reading = ConversationReader(self.source, self._shown, self._failed)
        self._worth: tuple[Any, ...] = ()
        self._last_view: MysisView | None = None
        self._live_ends = False
        self._jump = 0
        self._is_ready = False
        self._wrong = TextBlock(id="wrong")

    def compose(self) -> ComposeResult:
        yield PieceLine(id="top")
        with Container(id="body"):
            with Vertical(id="talk", classes="panel"):
                yield ConversationView(ConversationPalette(self.cockpit.look), self._symbols, id="transcript")
                yield LiveAnswer(id="live")
                yield self._wrong
                yield FindBar(id="find")
            yield ContextPanel(self.source, id="side")
        yield MessagePrompt(id="prompt")
        yield KeyFooter(id="keys")

    def on_mount(self) -> None:
        super().on_mount()
        self._is_ready = True
        self.query_one("#talk").border_title = "CONVERSATION"
        self.transcript.focus()
        self._begin()
        self.feed_changed(frozenset())  # an answer may be half written already

    def on_unmount(self) -> None:
        self._reading.forget()
        self.stop_finding()

    @property
    def transcript(self) -> ConversationView:
        return self.query_one(ConversationView)

    @property
    def live(self) -> LiveAnswer:
        return self.query_one(LiveAnswer)

    @property
    def _stands(self) -> bool:
        """Whether its widgets are there: news may come before them, and after they went."""
        return self._is_ready and all(self.query(kind) for kind in _PARTS)

    @property
    def side(self) -> ContextPanel:
        return self.query_one(ContextPanel)

    @property
    def view(self) -> MysisView | None:
        """The mysis as it is now, or as it last was where it is gone."""
        found = self.cockpit.feed.myses.get(self.mysis_id)
        if found is not None:
            self._last_view = found
        return self._last_view

    @property
    def _symbols(self) -> Symbols:
        return Symbols() if self.cockpit.console.encoding.lower().startswith("utf") else ASCII_SYMBOLS

    def situation(self) -> Situation:
        view = self.cockpit.feed.myses.get(self.mysis_id)
        finding = self.found is not None and bool(self.found.hits)
        return self.cockpit.base_situation((view,) if view is not None else (), finding=finding)

    # Reading.

    def source(self) -> ConversationSource | None:
        opened = self.cockpit.opened
        if opened is None:
            return None
        return ConversationSource(opened.database, self.mysis_id, self.cockpit.now(), self._symbols)

    def _begin(self) -> None:
        """Begin to read: at what was asked for, where the reader was, or at the end."""
        turn, key, words = self._start
        self._start = (None, "", "")
        bookmark = self.cockpit.bookmarks.get(self.mysis_id)
        if turn is not None:
            if key or words:
                self.transcript.mark(words, key)
            self._reading.around(turn, "found" if key else "turn")
            self._jump = turn
        elif isinstance(bookmark, Bookmark):
            self._reading.around(bookmark.turn, "bookmark")
        else:
            self._reading.newest()
        # Whether the side is shown is known once styles have been applied.
        self.call_after_refresh(self.side.changed)

    def _shown(self, window: TurnWindow, why: str) -> None:
        """A new window was read."""
        if not self._stands:
            return
        at: LinePosition | None = None
        bookmark = self.cockpit.bookmarks.get(self.mysis_id)
        if why == "bookmark" and isinstance(bookmark, Bookmark):
            at = bookmark.spot
            self.transcript.choose(bookmark.cursor)
        elif why == "turn" or why == "found":
            at = next((LinePosition(f"turn {turn.id}") for turn in window.turns if turn.number == self._jump), None)
        if self._live_ends:
            self._live_ends = False
            self.live.clear()
        self.transcript.show(
            window.blocks, has_older=window.has_older, has_newer=window.has_newer, at=at, to_end=why == "newest"
        )
        self._tell_what_is_wrong()
        if not window.turns and not window.waiting:
            self._subtitle()

    def _failed(self, error: StoreError) -> None:
        self.cockpit.show_error(error)

    def on_conversation_view_older_wanted(self, event: ConversationView.OlderWanted) -> None:
        self._reading.older()

    def on_conversation_view_newer_wanted(self, event: ConversationView.NewerWanted) -> None:
        self._reading.newer()

    def on_conversation_view_edge_wanted(self, event: ConversationView.EdgeWanted) -> None:
        if event.last:
            self._reading.newest()
        else:
            self._jump = 1
            self._reading.around(1, "turn")

    def on_conversation_view_moved(self, event: ConversationView.Moved) -> None:
        self._subtitle()
        self.share_room()

    # What changes.

    def feed_changed(self, ids: frozenset[int]) -> None:
        if not self._stands or (ids and self.mysis_id not in ids):
            return
        super().feed_changed(ids)
        self.retarget()
        view = self.view
        if view is None:
            return
        self._tell_what_is_wrong()
        if (view.streaming or view.thinking) and view.activity is Activity.LLM:
            self._live_ends = False
            self.live.think(view.thinking)
            if view.streaming:
                self.live.say(view.streaming)
        elif self.live.is_live:
            # It stays until what it became has been read, so that nothing flickers.
            self._live_ends = True
        if (now := conversation_version(view)) != self._worth:
            self._worth = now
            self._reread()

    def _tell_what_is_wrong(self) -> None:
        if (view := self.view) is None:
            return
        window = self._reading.window
        is_told = bool(window.blocks) and window.blocks[-1].kind is BlockKind.OUTCOME and not window.has_newer
        key = key_name(self.cockpit.keys["focus.relaunch"])
        wrong = build_failure_lines(view, self._symbols.bad, key, is_told=is_told)
        self._wrong.put(wrong)
        self._wrong.display = bool(wrong)

    def feed_happened(self, event: Event) -> None:
        if event.mysis_id == self.mysis_id and self._stands:
            self._reread()

    def _reread(self) -> None:
        self._reading.changed()
        self.found_changed()
        self.side.changed()

    def tick(self) -> None:
        super().tick()
        if not self._stands:
            return
        if self._reading.window.is_running_a_call:
            self._reread()
        self.side.tick()

    def look_changed(self) -> None:
        super().look_changed()
        self.transcript.draw_as(ConversationPalette(self.cockpit.look), self._symbols)

    def on_context_panel_failed(self, event: ContextPanel.Failed) -> None:
        self._failed(event.error)

    def on_resize(self) -> None:
        self.call_after_refresh(self.share_room)

    def on_live_answer_grown(self, event: LiveAnswer.Grown) -> None:
        self.share_room()

    def share_room(self) -> None:
        """The live answer stands right below the conversation, and takes at most half of the room."""
        if not self._stands:
            return
        transcript, live = self.transcript, self.live
        room = self.query_one("#talk").content_size.height - (1 if self.find_bar.display else 0)
        if not live.display or room <= 0:
            height: int | str = "1fr"
        else:
            said = min(max(1, live.virtual_size.height), max(3, room // LIVE_SHARE))
            live.styles.max_height = max(3, room // LIVE_SHARE)
            height = transcript.height if transcript.height + said <= room else "1fr"
        if str(transcript.styles.height) != str(height):
            transcript.styles.height = height

    # The first line, and the edge of the conversation.

    def _top(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        left, right = super()._top()
        view = self.view
        if view is None:
            return left, right
        order = self.cockpit.feed.in_order()
        place = next((at for at, one in enumerate(order, 1) if one.id == self.mysis_id), 0)
        who = build_title_pieces(view, place, len(order), self.cockpit.now(), self.cockpit.glyphs)
        still = [(f" {text.strip()}  ", role) for text, role in self._stands_still()]
        said = shorten([left[0], *still, *who, *self._needed()], self.size.width)
        if self.size.width < NARROW and count_cells(said) + count_cells(right) > self.size.width:
            return said, []  # what this one does is worth more here than what all of them cost
        return said, right

    def _subtitle(self) -> None:
        if not self._stands:
            return
        transcript, window = self.transcript, self._reading.window
        block = transcript.cursor
        edge = ReadingStatus(
            unseen=transcript.unseen,
            turns=window.last_number,
            turn=block.turn if block is not None else 0,
            is_empty=not window.turns and not window.waiting,
            is_loaded=self._reading.is_loaded,
            follows=transcript.follows,
            verbose=transcript.verbose,
        )
        self.query_one("#talk").border_subtitle = Content.assemble(*build_status_pieces(edge))

    # Moving.

    def do_focus_previous_turn(self) -> None:
        if not self.transcript.turn_beside(-1) and self._reading.window.has_older:
            self._jump = self._reading.window.turns[0].number - 1
            self._reading.around(self._jump, "turn")

    def do_focus_next_turn(self) -> None:
        if not self.transcript.turn_beside(1):
            self.transcript.action_edge(1)

    def load_around(self, turn: int) -> None:
        """Read the turn that was asked for, which is not loaded."""
        self._jump = turn
        self._reading.around(turn, "found")

    def do_focus_previous_mysis(self) -> None:
        self._other(-1)

    def do_focus_next_mysis(self) -> None:
        self._other(1)

    def _other(self, by: int) -> None:
        order = [view.id for view in self.cockpit.feed.in_order()]
        if not order:
            return
        at = order.index(self.mysis_id) if self.mysis_id in order else 0
        self._keep_place()
        self.end_finding()
        self.prompt.close()
        self.mysis_id = order[(at + by) % len(order)]
        self._worth, self._last_view, self._live_ends = (), None, False
        self._reading.forget()
        self.transcript.reset()
        self.live.clear()
        self.side.reset()
        self._begin()
        self.feed_changed(frozenset())

    def _keep_place(self) -> None:
        spot, cursor = self.transcript.spot, self.transcript.cursor
        number = next((block.turn for block in self._reading.window.blocks if spot and block.key == spot.key), 0)
        if spot is None or not number:
            self.cockpit.bookmarks.pop(self.mysis_id, None)
        else:
            self.cockpit.bookmarks[self.mysis_id] = Bookmark(number, spot, cursor.key if cursor is not None else "")

    def do_app_back(self) -> None:
        if self.prompt.is_open:
            self.prompt.close()
        elif self.find_bar.display:
            self.end_finding()
        else:
            self._keep_place()
            self.cockpit.pop_screen()

    # Actions on what is shown.

    def do_focus_verbose(self) -> None:
        self.transcript.set_verbose(not self.transcript.verbose)
        self._subtitle()

    def do_focus_inspect(self) -> None:
        from zoea.tui.screens.inspector import Inspector

        block = self.transcript.cursor
        self.cockpit.push_screen(Inspector(self.mysis_id, block.request_id if block is not None else None))

    def do_focus_export(self) -> None:
        from zoea.tui.dialogs.export import Exporting

        view = self.view
        if view is not None:
            self.cockpit.push_screen(Exporting(view.id, view.name))

    # Actions on the mysis.

    def do_focus_stop(self) -> None:
        self.cockpit.ask_swarm(self.cockpit.api.stop(f"#{self.mysis_id}"))

    def do_focus_relaunch(self) -> None:
        self.cockpit.ask_swarm(self.cockpit.api.start(f"#{self.mysis_id}"))

    def do_focus_message(self) -> None:
        view = self.view
        if view is not None:
            self.speak_to(view)

    def do_swarm_broadcast(self) -> None:
        self.speak_to_all()

    def on_message_prompt_closed(self, event: MessagePrompt.Closed) -> None:
        self.transcript.focus()
