"""The Textual app: opens the swarm after its first paint, keeps the feed, and carries out actions.

Screens show and ask; what they ask for is an action of the registry, looked up
here, refused with its reason where it is not possible, and carried out by the
screen or by the app.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.events import DescendantFocus, Key, MouseDown, Paste, Resize
from textual.events import Event as TextualEvent
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from zoea.model.errors import ZoeaError
from zoea.model.values import Event, MysisView
from zoea.settings.paths import Places
from zoea.text.control_characters import strip
from zoea.tui.commands import keymap as keymaps
from zoea.tui.commands.actions import BY_ID, Place, Situation, bindings, of
from zoea.tui.commands.everywhere_actions import Acting
from zoea.tui.commands.key_arming import Arming
from zoea.tui.commands.visit_actions import Visiting
from zoea.tui.state.deferred_worker import Beside
from zoea.tui.state.drafts import Drafts
from zoea.tui.state.open_approvals import Asked
from zoea.tui.state.swarm_feed import Feed
from zoea.tui.terminal.cursor_blink import Cursors
from zoea.tui.terminal.output_redirect import hand_back
from zoea.tui.terminal.terminal_control import Terminal, title_of
from zoea.tui.theme import themes
from zoea.tui.theme.ascii_filter import AsciiFilter, has_utf8
from zoea.tui.theme.role_styles import RoleStyles

if TYPE_CHECKING:
    from zoea.model.swarm_api import SwarmApi

_log = logging.getLogger(__name__)

TITLE = "Zoea"
OTHER = "workspace "
"""How a cockpit is left that wants another workspace: this, and its name."""

LEAVE_S = 9.5
"""What an end may take before it is left behind; the process has ten seconds."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A swarm that the cockpit may show: its own, or one that another process owns.

    `ending` is set once somebody else, over the socket, wants an own swarm to end. `looks_only` says why it
    can only be looked at; empty where it can be commanded.
    """

    api: SwarmApi
    database: Path
    is_owner: bool
    workspace: str = ""
    places: Places | None = None
    ending: asyncio.Event | None = None
    looks_only: str = ""


Opener = Callable[[], AbstractAsyncContextManager[Opened]]


class Cockpit(Visiting, Acting, App[str]):
    """The app.

    Args:
        opener: Opens the swarm; entered after the first paint, left at the end.
        config: The configuration directory, for themes.
        theme_name: The theme to begin with.
        keymap: Keys by action id, over the defaults.
        calm: No blinking and no animation.
        stays_calm: And none later, whatever the settings come to say.
        bell: Ring when a mysis needs somebody who looks elsewhere.
        opener_with_world: As `opener`, with the sandbox world beside the swarm; without it the welcome offers none.
    """

    TITLE = TITLE
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(of(Place.EVERYWHERE)),
        Binding("ctrl+c", "interrupt", "copy, clear or quit", show=False, priority=True),
    ]

    def __init__(
        self,
        opener: Opener,
        *,
        config: Path,
        theme_name: str = themes.DEFAULT,
        keymap: dict[str, str] | None = None,
        calm: bool = False,
        stays_calm: bool = False,
        bell: bool = True,
        opener_with_world: Opener | None = None,
        now: Callable[[], int],
    ) -> None:
        super().__init__()
        self._opener = opener
        self.opener_with_world = opener_with_world
        self.config = config
        self.keys, _ = keymaps.in_force(keymap or {})
        self._chosen_keys = dict(keymap or {})
        self.calm = calm
        self.stays_calm = stays_calm
        self.looker: Opener | None = None
        self.rings = bell
        self.ports: Sequence[Any] | None = None
        self.is_ascii = not has_utf8(os.environ)
        if self.is_ascii:
            self._filters.append(AsciiFilter())
        self.cursors = Cursors(lambda: self.focused if self.screen_stack else None, lambda: self.calm)
        self.now = now
        self.looks, self.look_errors = themes.load_themes(config)
        self.look = self.looks.get(theme_name) or self.looks[themes.DEFAULT]
        self.styles_of_look = RoleStyles(self.look)
        self.opened: Opened | None = None
        self.marks: set[int] = set()
        self.complaints: list[str] = []
        self.deleted: list[tuple[int, str]] = []
        self.bookmarks: dict[int, object] = {}
        self.drafts = Drafts()
        self.feed = Feed(self._feed_changed, self._feed_happened, self.went_wrong)
        self.asked = Asked(lambda: self.api.approvals(), lambda: self._tell_screens("asked_changed"))
        self.arming = Arming(time.monotonic, lambda: self._tell_screens("redraw_bars"))
        self.terminal = Terminal(self.write_raw, lambda: self.bell() if self.rings else None)
        self._swarm: asyncio.Task[None] | None = None
        self._close = asyncio.Event()
        self.is_settled = asyncio.Event()
        self._end_by = math.inf
        self.open_error: ZoeaError | None = None
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-normal"), (140, "-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-short"), (24, "-tall")]
        # Style files use the themes' roles, so the themes are there before the first one is read.
        for look in self.looks.values():
            self.register_theme(look.theme())
        self.theme = self.look.name
        if calm:
            self.animation_level = "none"

    # Opening and closing.

    def on_mount(self) -> None:
        self.terminal.open()
        self._hear_signals()
        from zoea.tui.screens.dashboard import Dashboard

        self.push_screen(Dashboard())
        self.use_keys(self._chosen_keys)
        self.set_interval(1.0, self._tick)
        # The swarm is opened after the first paint: its imports take longer than Textual's own.
        self.call_after_refresh(self._begin)

    def _hear_signals(self) -> None:
        """A terminal that goes away leaves the swarm running; being told to end ends it."""
        if threading.current_thread() is not threading.main_thread():
            return  # only the main thread of a process hears signals

        def end(how: str) -> None:
            if how == "leave":
                hand_back(getattr(self._driver, "attrs_before", None))
                how = "leave" if self.opened is None or self.opened.is_owner else "detach"
            self.run_worker(Beside(lambda: self.leave(how)), exit_on_error=False)

        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, end, "leave")
        loop.add_signal_handler(signal.SIGTERM, end, "stop")

    def _begin(self) -> None:
        gc.enable()
        self._swarm = asyncio.create_task(self._run_swarm())

    async def _run_swarm(self) -> None:
        try:
            async with self._opener() as opened:
                self.opened = opened
                self.is_settled.set()
                following = asyncio.create_task(self.feed.follow(opened.api))
                told = asyncio.create_task(self._end_when_told(opened.ending))
                try:
                    await self._close.wait()
                finally:
                    following.cancel()
                    told.cancel()
                    await asyncio.wait({following, told}, timeout=1)
        except ZoeaError as error:
            self._not_opened(error)
        except Exception as error:  # noqa: BLE001  the person would look at `opening the swarm` for ever
            _log.exception("the swarm could not be opened")
            self._not_opened(ZoeaError(f"{type(error).__name__}: {error}", title="The swarm could not be opened"))

    def _not_opened(self, error: ZoeaError) -> None:
        self.open_error = error
        self.is_settled.set()
        self._feed_changed(frozenset())
        self.offer_instead(error)

    async def _end_when_told(self, ending: asyncio.Event | None) -> None:
        if ending is not None:
            await ending.wait()
            self.run_worker(Beside(lambda: self.leave("stop")), exit_on_error=False)

    async def leave(self, how: str = "stop") -> None:
        """Close what was opened, then the app, which returns `how`; an attached swarm runs on. Within ten seconds."""
        self._close.set()
        self._end_by = min(self._end_by, time.monotonic() + LEAVE_S)
        if self.opened is None and self._swarm is not None:
            self._swarm.cancel()  # still opening: nobody needs it any more
        await self._swarm_ended()
        self.asked.close()
        self.terminal.close()
        self.exit(how)

    def leave_now(self) -> None:
        """The person will not wait any longer: whatever still closes is left behind."""
        self._close.set()
        self._end_by = 0.0
        self.terminal.close()
        self.exit("stop")

    async def _swarm_ended(self) -> None:
        left = self._end_by - time.monotonic()
        if self._swarm is not None and left > 0:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({self._swarm}, timeout=min(left, LEAVE_S))

    @property
    def api(self) -> SwarmApi:
        """The swarm. Raises ZoeaError while it is not open."""
        if self.opened is None:
            raise self.open_error or ZoeaError("the swarm is still opening", title="Not yet")
        return self.opened.api

    # The feed.

    def _feed_changed(self, ids: frozenset[int]) -> None:
        roster = self.feed.roster
        if self.marks:
            self.marks &= roster.myses.keys()
        if self.opened is not None:
            self.asked.take_views(roster.in_need)
            self.terminal.take(roster.in_need, focused=self.app_focus)
            running = roster.running if roster.myses else None
            self.terminal.show_title(title_of(self.opened.workspace, roster.in_need, running))
        self._tell_screens("feed_changed", ids)
        self.offer_welcome()

    def _feed_happened(self, event: Event) -> None:
        self.asked.take_event(event)
        self._tell_screens("feed_happened", event)

    def _tell_screens(self, method: str, *news: object) -> None:
        """Tell every screen that wants to know; one that fails keeps it from no other."""
        for screen in self.screen_stack if self._screen_stacks else ():
            tell = getattr(screen, method, None)
            if tell is not None:
                try:
                    tell(*news)
                except Exception as error:  # noqa: BLE001  a defect in one screen stays there
                    self.went_wrong(error)

    def went_wrong(self, error: Exception) -> None:
        """What nobody foresaw is logged, and said once; the cockpit goes on."""
        said = f"{type(error).__name__}: {error}"
        _log.error("the cockpit failed at something: %s", said, exc_info=error)
        if said not in self.complaints:
            self.complaints.append(said)
            self.show_error(ZoeaError(said, hint="The log file has the details."))

    def write_raw(self, sequence: str) -> None:
        """Tell the terminal something beside the screen; nothing while another program has it."""
        if self._driver is not None and not self._batch_count:
            self._driver.write(sequence)

    def on_resize(self, event: Resize) -> None:
        from zoea.tui.screens.too_small import TooSmall, is_too_small

        if is_too_small(event.size) and not any(isinstance(screen, TooSmall) for screen in self.screen_stack):
            self.push_screen(TooSmall())

    async def on_event(self, event: TextualEvent) -> None:
        if isinstance(event, Key) and not event.is_forwarded:
            self.arming.saw(event.key)
        if isinstance(event, Paste):
            # What is pasted is shown in inputs as it is: nothing in it may move the cursor.
            event.text = strip(event.text)
        await super().on_event(event)
        if isinstance(event, Key | MouseDown | Paste):
            self.cursors.wake()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        self.cursors.wake()

    def _tick(self) -> None:
        """A second has passed. A screen that is still being made, or is taken down already, has nothing to draw on."""
        self.cursors.settle()
        screen = self.screen_stack[-1] if self.is_running and self.screen_stack else None
        if screen is not None and screen.is_mounted and hasattr(screen, "tick"):
            screen.tick()

    # Actions.

    def situation(self) -> Situation:
        """What actions depend on, as the screen on top sees it."""
        screen = self.screen
        if hasattr(screen, "situation"):
            found = screen.situation()
            assert isinstance(found, Situation)
            return found
        return self.base_situation()

    def base_situation(self, targets: tuple[MysisView, ...] = (), *, finding: bool = False) -> Situation:
        view = self.feed.view
        return Situation(
            targets=targets,
            shown=len(self.feed.myses),
            approvals=len(self.asked.open),
            held=bool(view and view.held),
            is_ready=self.opened is not None and view is not None,
            can_undo=bool(self.deleted),
            is_owner=self.opened.is_owner if self.opened else True,
            finding=finding,
            has_sandbox=self.opener_with_world is not None,
            looks_only=self.opened.looks_only if self.opened else "",
        )

    def action_do(self, action_id: str) -> None:
        """Carry out an action of the registry, or say why it is not possible."""
        action = BY_ID[action_id]
        why = action.why_not(self.situation())
        if why:
            self.notify(why, title=action.title, severity="warning", markup=False)
            return
        method = getattr(self.screen, action.method, None) or getattr(self, action.method, None)
        if method is None:
            self.notify("not on this screen", title=action.title, severity="warning", markup=False)
            return
        method()

    def ask_swarm(
        self,
        work: Coroutine[Any, Any, Any],
        *,
        done: Callable[[Any], None] | None = None,
        refused: Callable[[ZoeaError], None] | None = None,
    ) -> None:
        """Carry out a command of the swarm beside the screen.

        Its result is given to `done`, its refusal to `refused`, or shown where nobody takes it.
        """

        command = Beside(work)

        async def run() -> None:
            try:
                result = await command
            except ZoeaError as error:
                (refused or self.show_error)(error)
            else:
                if done is not None:
                    done(result)

        self.run_worker(Beside(run), exit_on_error=False)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """What failed beside the screen in a way nobody foresaw is said and logged; the cockpit goes on."""
        error = event.worker.error
        if event.state is WorkerState.ERROR and error is not None:
            _log.error("work beside the screen failed", exc_info=error)
            self.show_error(ZoeaError(f"{type(error).__name__}: {error}", hint="The log file has the details."))

    def show_error(self, error: ZoeaError) -> None:
        said = error.what if not error.hint else f"{error.what}\n{error.hint}"
        self.notify(said, title=error.title, severity="error", markup=False, timeout=8)

    def do_swarm_hold(self) -> None:
        view = self.feed.view
        assert view is not None
        self.ask_swarm(self.api.hold(not view.held))

    def do_app_quit(self) -> None:
        from zoea.tui.dialogs.quit import Quitting

        self.push_screen(Quitting())

    def do_app_back(self) -> None:
        if len(self.screen_stack) > 2:
            self.pop_screen()

    # Looks.

    def use_look(self, name: str) -> None:
        """Show another theme at once."""
        self.look = self.looks[name]
        self.styles_of_look = RoleStyles(self.look)
        self.theme = name
        for screen in self.screen_stack:
            # One that is not there yet begins with this look.
            if screen.is_mounted and hasattr(screen, "look_changed"):
                screen.look_changed()

    @property
    def glyphs(self) -> dict[str, str]:
        """The theme's glyphs, or plain ones where the terminal cannot show them."""
        return dict(themes.ASCII_GLYPHS if self.is_ascii else self.look.glyphs)

    def _load_screen_css(self, screen: Screen[Any]) -> None:
        """A screen's own styles join what is parsed already, where Textual would parse everything once more."""
        for path in screen.css_path:
            if not self.stylesheet.has_source(str(path), ""):
                self.stylesheet.read(path)
        super()._load_screen_css(screen)

    def get_default_screen(self) -> Screen[Any]:
        return Screen(id="_default")


async def run(cockpit: Cockpit) -> str:
    """Run the app to its end; whatever it opened is closed by then. Returns how it was left: stop, leave, detach."""
    try:
        return await cockpit.run_async() or "stop"
    finally:
        cockpit._close.set()
        await cockpit._swarm_ended()
