"""The app of `zoea run`: opens swarm and screens, and binds actions."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from signal import Signals
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import DescendantFocus, Key, MouseDown, MouseUp, Paste, Resize
from textual.events import Event as TextualEvent
from textual.geometry import Size
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, TextArea

from zoea.model.errors import OwnerError, SettingsError, ZoeaError
from zoea.model.status import StatusWord
from zoea.model.values import Event
from zoea.process.signal_watchdog import SignalWatchdog
from zoea.queries.phrases import event_sentence, event_subject, is_summary_refusal
from zoea.text.control_characters import reveal
from zoea.tui.commands import swarm_commands
from zoea.tui.commands.action import Action, ActionContext, ActionPlace, Handlers
from zoea.tui.commands.actions import ACTIONS, bindings, of
from zoea.tui.screens.base import BaseScreen
from zoea.tui.state.cockpit import OTHER_WORKSPACE, Cockpit
from zoea.tui.state.swarm_connection import Opener
from zoea.tui.swarm_list.message_targets import list_unsent
from zoea.tui.terminal.output_redirect import restore_terminal
from zoea.tui.terminal.paced_driver import PacedDriver
from zoea.tui.terminal.terminal_control import build_title
from zoea.tui.terminal.terminal_driver import TerminalDriver
from zoea.tui.terminal.terminal_input import PASTE_LIMIT, PasteRefused
from zoea.tui.widgets.clickable_text import TextBlock

_log = logging.getLogger(__name__)

_TICK_WAIT_S = 0.05
SUCCESSOR_S = 1.0
"""Seconds between two looks for a process that runs a swarm whose process has ended."""


class CockpitApp(Cockpit):
    """The app, with everything that needs to know a screen."""

    TITLE = "Zoea"
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(of(ActionPlace.EVERYWHERE)),
        Binding("ctrl+c", "interrupt", "copy, clear or quit", show=False, priority=True),
    ]

    signals: SignalWatchdog | None = None
    """Passes the process's signals to the app; None where it has no process of its own."""
    _has_offered_welcome = False
    _has_shown_refusal = False
    """Whether it was shown that no model writes summaries; each later refusal is in the log."""

    @cached_property
    def _handlers(self) -> Handlers:
        """The actions that are carried out over any screen. A screen's own come before them."""
        return {
            "app.reload": self._reload_or_reopen,
            "app.screenshot": lambda: self.start_work(self._write_screenshot),
            "swarm.hold": lambda: swarm_commands.toggle_hold(self),
            "swarm.stop-all": lambda: swarm_commands.stop_all_when_pressed_twice(self),
        }

    def find_action(self, action: Action, screen: Screen[Any]) -> Callable[[], object] | None:
        handler = screen.handlers.get(action.id) if isinstance(screen, BaseScreen) else None
        handler = handler or self._handlers.get(action.id)
        return handler or (partial(self._open, action.opens) if action.opens else None)

    def _open(self, path: str) -> None:
        """Show the screen or dialog of an action, which is imported at its first use."""
        module, _, name = path.rpartition(".")
        screen: Screen[Any] | None = getattr(import_module(f"zoea.tui.{module}"), name).open_over(self)
        if screen is not None:
            self.push_screen(screen)

    def action_context(self) -> ActionContext:
        screen = self.screen
        return screen.action_context() if isinstance(screen, BaseScreen) else self.build_context()

    # Opening.

    def on_mount(self) -> None:
        from zoea.tui.screens.dashboard import DashboardScreen

        self.terminal.open()
        if self.signals is not None:
            self._handle_signals(self.signals)
        self.push_screen(DashboardScreen())
        self.use_keys(self.early.keys)
        self.set_interval(1.0, self.tick_after_keys)
        # The swarm is opened after the first paint, because its imports take longer than Textual's own.
        self.call_after_refresh(lambda: self.connection.open(self._show_stored))

    def _handle_signals(self, signals: SignalWatchdog) -> None:
        signals.handle((Signals.SIGINT, Signals.SIGTERM), lambda _: self.start_leaving("stop"))
        signals.handle((Signals.SIGHUP,), lambda _: self.hang_up())
        if isinstance(self._driver, TerminalDriver):
            self._driver.when_lost(lambda: signals.raise_signal(Signals.SIGHUP))
        if isinstance(self._driver, PacedDriver):
            self._driver.count_waiting(lambda: self.message_queue_size + self.type_ahead.waiting)

    def give_up_terminal(self) -> None:
        """Stop drawing for good, and restore the terminal where it still exists. May be called in a thread."""
        driver = self._driver
        if isinstance(driver, TerminalDriver):
            driver.abandon()
            restore_terminal(driver.attrs_before)

    def hang_up(self) -> None:
        """Leave the swarm running without a screen, because the terminal was closed."""
        self.give_up_terminal()
        self.start_leaving("leave" if self.opened is None or self.opened.is_owner else "detach")

    async def _show_stored(self) -> None:
        """Paint the stored rows, because it takes a while until the swarm is open."""
        try:
            try:
                await asyncio.to_thread(self.drafts.load)
            except SettingsError as error:
                self.show_error(error)
            view = await asyncio.to_thread(self._read_stored) if self._read_stored is not None else None
            if view is not None:
                painted = asyncio.Event()
                self.feed.show_stored(view)
                self.call_after_refresh(painted.set)
                await painted.wait()
        except Exception as error:  # noqa: BLE001  the swarm opens all the same
            self.report_defect(error)
        finally:
            gc.enable()

    def opening_failed(self, error: ZoeaError) -> None:
        self.feed_changed(frozenset())
        self.opening_wait.settle()
        if self.read_only_opener is not None and isinstance(error, OwnerError):
            from zoea.tui.dialogs.workspace_held import WorkspaceHeldDialog

            self.push_screen(WorkspaceHeldDialog(error), self._workspace_held_answered)

    def _workspace_held_answered(self, answer: str | None) -> None:
        from zoea.tui.dialogs.workspace_held import READ_ONLY, TRY_AGAIN

        if answer in (TRY_AGAIN, READ_ONLY):
            opener = self.read_only_opener if answer == READ_ONLY else None
            self.start_work(lambda: self._reopen(opener))
        elif answer is not None:
            is_other = answer.startswith(OTHER_WORKSPACE)
            if is_other:
                self.connection.error = None  # it concerns this workspace
            self.start_leaving(answer if is_other else "detach")

    def _reload_or_reopen(self) -> None:
        """Load changed settings, or open the swarm again after its process ended: here, or where it runs by now."""
        if self.feed.lost:
            self.start_work(lambda: self._reopen(None))
        else:
            swarm_commands.reload_settings(self)

    async def _follow_successor(self) -> None:
        """Wait for a new process that runs the swarm, and attach to it."""
        while self.feed.lost and self.find_successor is not None:
            opener = await self.find_successor()
            if opener is None or self.connection.is_reopening:
                await asyncio.sleep(SUCCESSOR_S)
            elif self.feed.lost:
                await self.connection.reopen(opener, lasts=False)
                self.notify("Another process runs the swarm now; this cockpit shows it", markup=False)

    async def _reopen(self, opener: Opener | None) -> None:
        with contextlib.suppress(OwnerError):  # `opening_failed` shows the dialog again
            await self.connection.reopen(opener)

    # News for the screens.

    def _screens(self) -> Iterator[BaseScreen[Any]]:
        for screen in self.screen_stack if self._screen_stacks and self.is_running else ():
            if isinstance(screen, BaseScreen):
                yield screen

    def _tell_screens(self, tell: Callable[[BaseScreen[Any]], None]) -> None:
        """Call a hook of every screen; report an error in one, and go on."""
        for screen in self._screens():
            try:
                tell(screen)
            except Exception as error:  # noqa: BLE001  a defect in one screen must not stop the others
                self.report_defect(error)

    def feed_changed(self, ids: frozenset[int]) -> None:
        roster = self.feed.roster
        if self.marks:
            self.marks.intersection_update(roster.myses)
        if self.pins:
            self.pins.intersection_update(roster.myses)  # `&=` with keys makes another set, and the order has this one
        if self.opened is not None:
            self.approvals.take_views(roster.in_need)
            self.terminal.take(roster.in_need, focused=self.app_focus)
            working = roster.statuses[StatusWord.WORKING] if roster.myses else None
            self.terminal.show_title(build_title(self.opened.workspace, roster.in_need, working))
        self._tell_screens(lambda screen: screen.feed_changed(ids))
        if self.feed.lost and not any(worker.group == "successor" for worker in self.workers):
            self.start_work(self._follow_successor, group="successor")
        self.opening_wait.settle()
        self._offer_welcome()

    def feed_event(self, event: Event) -> None:
        self.approvals.take_event(event)
        if is_summary_refusal(event) and not self._has_shown_refusal:
            self._has_shown_refusal = True
            names = {one.id: one.name for one in self.feed.in_order()}
            text = f"{event_subject(event, names)}: {event_sentence(event)}."
            self.notify(text, title="No model writes summaries", severity="warning", markup=False, timeout=15)
        self._tell_screens(lambda screen: screen.feed_event(event))

    def approvals_changed(self) -> None:
        self._tell_screens(lambda screen: screen.approvals_changed())

    def redraw_bars(self) -> None:
        self._tell_screens(lambda screen: screen.redraw_bars())

    def theme_changed(self) -> None:
        for screen in self._screens():
            if screen.is_mounted:  # another one starts with the new theme
                screen.theme_changed()

    def _offer_welcome(self) -> None:
        """Show the welcome screen once, where the swarm is open and has no mysis yet."""
        if self._has_offered_welcome or self.opened is None or self.feed.view is None:
            return
        self._has_offered_welcome = True
        if self.opened.warning:
            self.notify(self.opened.warning, severity="warning", markup=False, timeout=15)
        if unsent := list_unsent(self.feed.in_order(), self.drafts.of):
            self.notify(f"Unsent text is kept for {unsent}: it stands in the prompt again", markup=False, timeout=10)
        if not self.feed.myses and len(self.screen_stack) == 2:
            self.action_do("screen.welcome")

    # Events.

    def on_resize(self, event: Resize) -> None:

        if is_too_small(event.size) and not any(isinstance(screen, TooSmallScreen) for screen in self.screen_stack):
            self.push_screen(TooSmallScreen())

    async def _on_key(self, event: Key) -> None:
        """Carry out a key. Refuse one that opens an input elsewhere, with the text that is typed for it."""
        event.prevent_default()
        if await self._check_bindings(event.key) or isinstance(self.screen, ModalScreen):
            return
        known = (
            action for action in ACTIONS if action.takes_text and self.keys.get(action.id, action.key) == event.key
        )
        if (action := next(known, None)) is not None:
            self._refuse(action, action.elsewhere)

    async def on_event(self, event: TextualEvent) -> None:
        if isinstance(event, Key | Paste) and not event.is_forwarded and not self.type_ahead.admit(event):
            return
        if isinstance(event, MouseUp) and not event.is_forwarded:
            self.type_ahead.watch_click()
        if isinstance(event, Key) and not event.is_forwarded:
            self.arming.saw(event.key)
        if isinstance(event, Paste) and not event.is_forwarded and not isinstance(self.focused, Input | TextArea):
            key = self.key("mysis.message")
            self.notify(f"Nothing here takes a pasted text: {key} writes a message", markup=False)
        if isinstance(event, Paste):
            # Inputs show pasted text as it is, so control characters must not reach them.
            event.text = reveal(event.text)
            if isinstance(self.focused, Input):
                # An input of one line would take the first one only, and lose the rest without a word.
                event.text = " ".join(event.text.splitlines())
        await super().on_event(event)
        if isinstance(event, Key | MouseDown | Paste):
            self.cursors.wake()

    def on_paste_refused(self, event: PasteRefused) -> None:
        self.notify(
            f"{event.size:,} characters were pasted, and at most {PASTE_LIMIT:,} fit: none of them is taken. "
            "Save them in a file for your myses to read, or send less.",
            title="The text is too long",
            severity="warning",
            markup=False,
            timeout=20,
        )

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        self.cursors.wake()

    def tick_after_keys(self, tries: int = 4) -> None:
        """Tick once the effects of a key are complete, or after so many looks."""
        if self.type_ahead.is_busy() and tries:
            self.set_timer(_TICK_WAIT_S, partial(self.tick_after_keys, tries - 1))
        else:
            self.tick()

    def tick(self) -> None:
        """Tell the screen on top that a second has passed, where it is mounted."""
        self.cursors.settle()
        if self.settings_watch.look_for_reload():
            swarm_commands.follow_reload(self)
        elif self.settings_watch.look():
            key = self.key("app.reload")
            self.notify(
                f"Settings, credentials or themes were changed outside this cockpit: {key} loads them (:reload)",
                markup=False,
            )
        screen = self.screen_stack[-1] if self.is_running and self.screen_stack else None
        if isinstance(screen, BaseScreen) and screen.is_mounted:
            screen.tick()

    # Actions.

    async def _write_screenshot(self) -> None:
        """Write the screen to `zoea-TIME.svg` in the current directory."""
        at = datetime.fromtimestamp(self.now() / 1_000_000, tz=UTC).astimezone()
        file = Path.cwd() / f"zoea-{at:%Y%m%d-%H%M%S-%f}.svg"
        try:
            await asyncio.to_thread(file.write_text, self.export_screenshot(), "utf-8")
        except OSError as error:
            self.show_error(ZoeaError(f"the screenshot cannot be written to {file}: {error.strerror}"))
        else:
            self.notify(f"The screen is written to {file}", markup=False)

    def act_on_mysis(self, action_id: str, mysis_id: int) -> None:
        from zoea.tui.screens.dashboard import DashboardScreen

        if mysis_id not in self.feed.myses:
            return self.notify("That mysis was deleted meanwhile", severity="warning")
        while len(self.screen_stack) > 1 and not isinstance(self.screen, DashboardScreen):
            self.pop_screen()
        if isinstance(self.screen, DashboardScreen):
            self.screen.select(mysis_id)
            self.action_do(action_id)
        return None

    async def action_quit(self) -> None:
        """Replace Textual's quit, which would not ask."""
        self.action_do("app.quit")

    def action_press(self, key: str) -> None:
        """Handle a click on a key's name as that key."""
        event = Key(key, None)
        # The app sends it, because what a widget sends does not bubble above that widget.
        event.set_sender(self)
        self.post_message(event)

    def action_interrupt(self) -> None:
        """Handle ctrl+c: copy the selection, else clear the focused input, else quit on the second press."""
        from zoea.tui.dialogs.quit import QuitDialog

        if isinstance(self.screen, QuitDialog):
            self.screen.interrupt()
        elif self.opening_wait.drop():
            self.notify("The keys that waited for the swarm are forgotten", markup=False, timeout=3)
        elif selected := self._selected_text():
            self.copy_to_clipboard(selected)
            self.notify("Copied", markup=False, timeout=1.5)
        elif not _clear_input(self.focused) and self.arming.press("quit", "press ^c again to quit"):
            self.action_do("app.quit")

    def copy_to_clipboard(self, text: str) -> None:
        """Copy a text with its hidden characters as escapes. It may be pasted into a shell."""
        super().copy_to_clipboard(reveal(text))

    def _selected_text(self) -> str:
        focused = self.focused
        if isinstance(focused, TextArea | Input) and focused.selected_text:
            return focused.selected_text
        return self.screen.get_selected_text() or ""

    # Textual's own.

    async def _process_messages(self, *arguments: Any, **options: Any) -> None:
        """Run the app with tasks that begin after the code that makes them.

        Since 3.12 Textual lets all tasks of its event loop begin at once: also those of the swarm.
        """
        asyncio.get_running_loop().set_task_factory(None)
        await super()._process_messages(*arguments, **options)

    def _load_screen_css(self, screen: Screen[Any]) -> None:
        """Add a screen's styles to the parsed ones. Textual would parse all of them again."""
        for path in screen.css_path:
            if not self.stylesheet.has_source(str(path), ""):
                self.stylesheet.read(path)
        super()._load_screen_css(screen)

    def get_default_screen(self) -> Screen[Any]:
        return Screen(id="_default")


def _clear_input(focused: object) -> bool:
    """Clear the focused input. False where it was empty; a prompt keeps its text in the history."""
    from zoea.tui.widgets.message_prompt import MessagePrompt

    if isinstance(focused, TextArea):
        prompt = next((node for node in focused.ancestors if isinstance(node, MessagePrompt)), None)
        if prompt is not None:
            return prompt.clear_into_history()
    if isinstance(focused, Input) and focused.value:
        focused.value = ""
        return True
    return False


async def run(cockpit: CockpitApp) -> str:
    """Run the app and close its swarm. Returns stop, leave, detach or another workspace; nothing after a defect."""
    try:
        return await cockpit.run_async() or ""
    finally:
        try:
            await asyncio.to_thread(cockpit.drafts.store)
        except SettingsError as error:
            _log.warning("unsent texts are lost: %s", error.what)
        await cockpit.connection.close()


MINIMUM = Size(60, 16)


def is_too_small(size: Size) -> bool:
    return size.width < MINIMUM.width or size.height < MINIMUM.height


class TooSmallScreen(ModalScreen[None]):
    """Takes every key and closes itself."""

    CSS_PATH = "screens/too_small.tcss"

    def compose(self) -> ComposeResult:
        yield TextBlock(id="words")

    def on_mount(self) -> None:
        self._say(self.app.size)

    def on_resize(self, event: Resize) -> None:
        if is_too_small(event.size):
            self._say(event.size)
        elif self.is_active:
            self.dismiss()

    def on_screen_resume(self) -> None:
        if not is_too_small(self.app.size):
            self.call_after_refresh(self.dismiss)

    def _say(self, size: Size) -> None:
        # Each line fits into 20 cells, because nothing wraps here.
        sizes = f"{size.width}x{size.height}, needs {MINIMUM.width}x{MINIMUM.height}"
        self.query_one(TextBlock).put([[("Terminal too small", "title")], [(sizes, "quiet")]])
