"""Base classes of screens and dialogs: bound actions, hooks for news, header and footer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from msgspec.structs import replace
from textual import getters, on
from textual.app import ComposeResult
from textual.events import DescendantBlur, DescendantFocus, Mount, Resize, ScreenResume, ScreenSuspend
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen, Screen

from zoea.model.errors import ZoeaError
from zoea.model.status import StatusWord
from zoea.model.values import Event, MysisView, ReceiptLine, SwarmView
from zoea.text.amounts import format_dollars
from zoea.text.control_characters import one_line
from zoea.text.sentences import count_of
from zoea.tui import number_format
from zoea.tui.commands.action import UNLISTED, Action, ActionContext, ActionPlace, Handlers
from zoea.tui.commands.actions import bindings, of
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.text_layout import LOW, Piece, count_cells
from zoea.tui.widgets.line_compositor import LineCompositor
from zoea.tui.widgets.status_bars import KeyFooter, PieceLine, is_typing, typed_keys

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
NARROW = 100
"""Columns below which the header leaves out what matters less."""
LAG_SHOWN_US = 60_000_000
"""How long the header shows that the event loop was held up."""
CLOCK_FROM = 120
"""Columns from which the header shows the time."""
WORDS_FROM = 150
"""Columns from which the header writes its units in full."""


class BaseScreen(Screen[T]):
    """A screen or dialog of the cockpit. The app calls the hooks of every screen on its stack."""

    PLACE: ClassVar[ActionPlace] = ActionPlace.EVERYWHERE
    """The place of its own actions, whose keys are bound here."""
    WAITS_WITH_FRAMES: ClassVar[bool] = True
    """Whether the first frame is made when the widgets know their sizes, and not one for each step until then."""

    def __init_subclass__(cls, **more: Any) -> None:
        if "PLACE" in vars(cls):
            cls.BINDINGS = [*bindings(of(cls.PLACE)), *vars(cls).get("BINDINGS", ())]
        super().__init_subclass__(**more)

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._compositor = LineCompositor()
        self._has_resumed = False
        self._is_arranged = not self.WAITS_WITH_FRAMES

    @classmethod
    def open_over(cls, cockpit: Cockpit) -> Screen[Any] | None:
        """Create it as its action opens it; None where one is on top."""
        return None if type(cockpit.screen) is cls else cls()

    cockpit = getters.app(Cockpit)
    """The app."""

    @property
    def is_attached(self) -> bool:
        """Whether the screen stays in the app. Textual removes the widgets of a screen before itself."""
        return not self._pruning and super().is_attached

    @property
    def is_mounted(self) -> bool:
        return not self._pruning and super().is_mounted

    @property
    def holds_keys(self) -> bool:
        """Whether the next key has to wait until the effect of the last is complete."""
        return False

    async def read(self, query: Callable[Concatenate[Path, P], R], *args: P.args, **more: P.kwargs) -> R | None:
        """Run a query on the swarm's database in a thread.

        None while no swarm is open, after an error, which is shown, and where this screen was left meanwhile.
        """
        opened = self.cockpit.opened
        if opened is None:
            return None
        try:
            result = await asyncio.to_thread(query, opened.database, *args, **more)
        except ZoeaError as error:
            self.say(error)
            return None
        return result if self.is_attached else None

    def say(self, error: ZoeaError) -> None:
        """Show an error."""
        self.cockpit.show_error(error)

    def on_compose(self) -> None:
        """Set the classes of the terminal's size while there are no widgets. Later they would be styled again."""
        for bounds, length in (
            (self.app.HORIZONTAL_BREAKPOINTS, self.app.size.width),
            (self.app.VERTICAL_BREAKPOINTS, self.app.size.height),
        ):
            reached = [bound for bound in bounds or () if length >= bound[0]]
            if reached:
                self.add_class(max(reached)[1])

    def bind_actions(self) -> Handlers:
        """Return the actions that this screen carries out, each with its handler."""
        return {}

    @cached_property
    def handlers(self) -> Handlers:
        """What `bind_actions` returns, and the way back, made once."""
        return {"app.back": self.back, **self.bind_actions()}

    def back(self) -> None:
        """Go back from this screen, unless it is the dashboard."""
        if len(self.app.screen_stack) > 2:
            self.app.pop_screen()

    def action_context(self) -> ActionContext:
        """Return what decides which actions are possible here."""
        return self.cockpit.build_context()

    def feed_changed(self, ids: frozenset[int]) -> None:
        """Take note that these myses changed or were deleted; without ids, the whole swarm."""

    def feed_event(self, event: Event) -> None:
        """Take note of an event that the swarm stored."""

    def shows_message_to(self, recipients: Sequence[ReceiptLine]) -> bool:
        """Return whether the screen shows that a message was delivered to them."""
        return False

    def approvals_changed(self) -> None:
        """Take note that the open approvals changed."""

    def redraw_bars(self) -> None:
        """Draw header and footer again, because they may have changed."""

    def tick(self) -> None:
        """Update what changes with time; called each second for the screen on top."""

    def call_after_refresh(self, callback: Callable[..., Any], *args: Any, **more: Any) -> bool:
        """Call it after the next frame, unless this screen is left by then: its widgets are gone."""
        return super().call_after_refresh(lambda: None if self._pruning else callback(*args, **more))

    @on(DescendantFocus)
    @on(DescendantBlur)
    def _take_focus(self) -> None:
        self.call_after_refresh(self.place_toasts)

    async def _on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.place_toasts)
        if not self._is_arranged:
            self.call_next(self._show_first_frame)

    def _show_first_frame(self) -> None:
        self._is_arranged = True
        self.refresh()

    def _compositor_refresh(self) -> None:
        if self._is_arranged:
            super()._compositor_refresh()

    def _screen_resized(self, size: Size) -> None:
        """Arrange the widgets, unless they are for this size: Textual tells a new screen its size a second time."""
        if size != self._compositor.size:
            super()._screen_resized(size)

    def post_message(self, message: Message) -> bool:
        if isinstance(message, ScreenResume) and not self._has_resumed:
            self._has_resumed = True
            message = ScreenResume(refresh_styles=False)  # its widgets are new, and get their styles when they mount
        return super().post_message(message)

    def place_toasts(self) -> None:
        """Show toasts at the top while the person writes or the screen is low. Low screens show one line of each."""
        focused, is_low = self.focused, self.size.height < LOW
        writes_below = focused is not None and is_typing(focused) and focused.region.bottom > self.size.height // 2
        self.set_class(writes_below or is_low, "-toasts-above")
        self.set_class(is_low, "-toasts-brief")

    def theme_changed(self) -> None:
        """Draw all widgets in the theme that was chosen."""
        for widget in self.query("*"):
            restyle: Any = getattr(widget, "restyle", None)
            if restyle is not None:
                restyle()
            widget.refresh()


class CockpitScreen(BaseScreen[T]):
    """A screen with a header `#top` and a footer `#keys`."""

    TITLES: ClassVar[dict[str, str]] = {}
    """Footer titles by action id, where an action has another title here."""
    LEADS_BACK: ClassVar[bool] = True
    """Whether escape leads to another screen, so that the footer names it."""
    ZOOM_NOTE: ClassVar[str] = "tab next panel · "
    """Begin of the footer's note while one panel is shown alone."""
    zoomed = ""
    """The panel that is shown alone; empty while all are shown."""
    _possible: Sequence[Action] | None = None
    """The actions that the footer may name, looked up once because it changes often."""
    _retitled: Mapping[str, str] = {}

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.header, self.footer = PieceLine(id="top"), KeyFooter(id="keys")

    def compose(self) -> ComposeResult:
        yield self.header
        yield from self.compose_body()
        yield self.footer

    def compose_body(self) -> ComposeResult:
        """Compose the widgets between header and footer."""
        raise NotImplementedError

    def feed_changed(self, ids: frozenset[int]) -> None:
        self.redraw_bars()

    def tick(self) -> None:
        self.redraw_bars()

    @on(Mount)
    @on(ScreenResume)
    @on(ScreenSuspend)
    @on(DescendantFocus)
    @on(DescendantBlur)
    def redraw_bars(self) -> None:
        """Draw the header from the feed and the footer from the actions."""
        if not self.is_mounted or not self.footer.is_attached:
            return
        if self._possible is None:
            titles = {**self.TITLES, **self._retitled}
            self._possible = [
                replace(action, title=titles.get(action.id, action.title))
                for action in of(ActionPlace.EVERYWHERE, self.PLACE)
                if self.cockpit.find_action(action, self) is not None
            ]
        self.header.put(*self.header_pieces())
        keys, badge = self.cockpit.keys, self._badge()
        if isinstance(self.app.screen, ModalScreen):
            self.footer.show((), badge)  # the dialog above takes the keys and names its own
            return
        context = self.action_context()
        if self.focused is not None and is_typing(self.focused):
            here = [action for action in self._possible if action.why_not(context) not in UNLISTED]
            self.footer.show(typed_keys(self.focused, here, keys), badge)
        else:
            self.footer.describe(self._possible, context, keys, badge, leads_back=self.LEADS_BACK, kept=self._retitled)

    def retitle(self, action_id: str, title: str) -> None:
        """Show a title for the key that switches something back. "" for the usual one again."""
        kept = {other: text for other, text in self._retitled.items() if other != action_id}
        self._retitled = {**kept, action_id: title} if title else kept
        self._possible = None
        self.redraw_bars()

    def _badge(self) -> str:
        if self.cockpit.arming.note:
            return f"{self.cockpit.arming.note} "
        if self.cockpit.opening_wait.holds_keys:
            return "your keys wait until the swarm is open; ^c forgets them "
        if self.cockpit.feed.lost:
            return f"{self.cockpit.key('app.reload')} opens the swarm again "
        if self.cockpit.settings_watch.has_changed:
            return f"settings changed: {self.cockpit.key('app.reload')} loads them "
        if self.zoomed:
            return f"{self.ZOOM_NOTE}{self.cockpit.key('app.zoom')} shows all "
        opened = self.cockpit.opened
        if opened is not None and opened.read_only_reason:
            return "read-only "
        return "" if opened is None or opened.is_owner else "attached "

    def halt_pieces(self) -> list[Piece]:
        """Return why the whole swarm stands still; the header shows it first."""
        view = self.cockpit.feed.view
        if self.cockpit.feed.lost:
            return [("the swarm has ended   ", "errored")]
        if view is None or not view.held:
            return []
        reason = one_line(view.hold_reason)
        finishing = self.cockpit.feed.roster.finishing
        more = f", {finishing} finishing" if finishing else ""
        if reason:
            return [("ON HOLD  ", "asking"), (f"{reason}{more}   ", "waiting")]
        return [(f"ON HOLD{more}  ", "asking")]

    @property
    def needing(self) -> Sequence[MysisView]:
        """The myses that need the person and that the screen does not show already."""
        return self.cockpit.feed.roster.in_need

    def need_pieces(self) -> list[Piece]:
        """Return who needs the person: the name of one, else how many."""
        needing = self.needing
        if len(needing) == 1:
            return [(f"1 needs you: {one_line(needing[0].name)}", "asking")]
        return [(f"{len(needing)} need you", "asking")] if needing else []

    def header_pieces(self) -> tuple[list[Piece], list[Piece]]:
        """Return the left and the right part of the header."""
        cockpit = self.cockpit
        glyphs = cockpit.glyphs
        roster = cockpit.feed.roster
        left: list[Piece] = [(f"{glyphs['brand']} Z O E A {glyphs['brand-full']} ", "title")]
        if cockpit.opened is None:
            error = cockpit.open_error
            left.append((" Opening the swarm…" if error is None else f" {error.title}", "quiet"))
            return left, []
        is_narrow = self.size.width < NARROW
        halt = self.halt_pieces()
        # In a narrow header the reason why the swarm stands still replaces the workspace's name.
        what = " workspace" if self.size.width >= WORDS_FROM else ""
        left += [] if halt and is_narrow else [(f"{what} {cockpit.opened.workspace or 'default'}   ", "quiet")]
        left += [(" ", ""), *halt] if halt and is_narrow else halt
        left.append((count_of(len(roster.myses), "mysis"), ""))
        left += [(", ", ""), *need] if (need := self.need_pieces()) else []
        right = [] if halt and is_narrow else self._usage_pieces(is_narrow=is_narrow)
        if right and right[0][1] == "waiting" and count_cells([*left, *right]) >= self.size.width:
            del right[0]  # how many myses there are goes before a stall
        room = self.size.width - count_cells([*left, *right]) - 1
        return [*left, *self.count_pieces(room)], right

    def count_pieces(self, room: int) -> list[Piece]:
        """Return how many myses have each status, as far as they fit into `room` cells.

        Where not all fit, those that need the person are left out first: their number is shown already.
        """
        roster = self.cockpit.feed.roster
        counted = {
            word: (f" · {roster.statuses[word]} {word}", str(word)) for word in StatusWord if roster.statuses[word]
        }
        if count_cells(list(counted.values())) > room:
            needing = {view.status for view in roster.in_need}
            counted = {word: piece for word, piece in counted.items() if word not in needing}
        pieces: list[Piece] = []
        for piece in counted.values():
            if count_cells([*pieces, piece]) <= room:
                pieces.append(piece)
        return pieces

    def _usage_pieces(self, *, is_narrow: bool) -> list[Piece]:
        """Return tokens a minute, tokens and cost of today, and the time."""
        cockpit = self.cockpit
        has_clock, is_wide = self.size.width >= CLOCK_FROM, self.size.width >= WORDS_FROM
        rate = cockpit.feed.rate()
        unit = "tokens" if is_wide else "tok"
        right: list[Piece] = [(f"~{number_format.tokens(rate)} {unit}/min", "quiet")] if rate else []
        view = cockpit.feed.view
        if view is not None:
            if view.lag_ms and abs(cockpit.now() - view.lagged_at) < LAG_SHOWN_US:
                stall: Piece = (f"Zoea stalled {view.lag_ms / 1_000:.1f} s  ", "waiting")
                right = [stall] if is_narrow else [stall, *right]
            cost = view.cost_today_micros
            if not cost or not is_narrow:
                right.append((f"  {self._describe_today(view)}", "quiet"))
            most = f" of {format_dollars(view.money_today)}" if view.money_today and has_clock else ""
            right += [(f"  {format_dollars(cost)}{most}", "quiet")] if cost else []
            clock = number_format.clock(cockpit.now(), cockpit.now()) if has_clock else ""
            right.append((f"   {clock} " if clock else " ", "quiet"))
        return right

    def _describe_today(self, view: SwarmView) -> str:
        """Return the tokens of today with their limit, in words that fit the header."""
        used, width = number_format.tokens(view.tokens_today), self.size.width
        if not view.budget_today:
            return f"{used} tokens today" if width >= CLOCK_FROM else f"{used} today"
        limit = number_format.tokens(view.budget_today)
        # Tokens of the autopilot and of other free providers do not count against it.
        if width >= WORDS_FROM:
            return f"today's budget: {used} of {limit} tokens"
        return f"budget today {used} of {limit}" if width >= CLOCK_FROM else f"{used}/{limit} tok today"
