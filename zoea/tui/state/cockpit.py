"""The base of the app: shared state, and services on swarm, themes and keys.

Screens, dialogs and commands depend on it, not it on them: the app that is run derives from it in `zoea.tui.app`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from msgspec import Struct
from textual.app import App
from textual.notifications import Notify, SeverityLevel
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.worker import Worker, WorkerState
from textual.worker_manager import WorkerManager

from zoea.model.errors import SettingsError, ZoeaError
from zoea.model.values import Event, Memory, MysisView, SwarmView
from zoea.runtime.run_options import StartOptions
from zoea.settings.early_defaults import EARLY, EarlySettings
from zoea.settings.paths import Places
from zoea.text.control_characters import prose_line, reveal
from zoea.text.sentences import begin_sentence
from zoea.tui.commands import keymap as keymaps
from zoea.tui.commands.action import OPENING, Action, ActionContext, needs_target
from zoea.tui.commands.actions import BY_ID
from zoea.tui.state.deferred_work import DeferredWork, WorkQueue
from zoea.tui.state.drafts import Drafts
from zoea.tui.state.open_approvals import OpenApprovals
from zoea.tui.state.settings_watch import SettingsWatch
from zoea.tui.state.swarm_connection import Opener, OpenSwarm, SwarmConnection
from zoea.tui.state.swarm_feed import SwarmFeed
from zoea.tui.state.timed_notice import TimedNotice
from zoea.tui.state.type_ahead import KeyArming, OpeningWait, TypeAhead
from zoea.tui.swarm_list.message_targets import Audience
from zoea.tui.swarm_list.row_filter import RowFilter
from zoea.tui.terminal.terminal_control import CursorBlink, TerminalControl
from zoea.tui.text_layout import LOW
from zoea.tui.theme import themes
from zoea.tui.theme.role_styles import RoleStyles
from zoea.tui.widgets.status_bars import AT_REST, key_name

if TYPE_CHECKING:
    from zoea.model.swarm_api import SwarmApi
    from zoea.settings.schema import Settings
    from zoea.swarm.rules import WaitRules


class ReportedWorkers(WorkerManager):
    """Reports unexpected errors of all workers, also after their widgets were removed.

    Textual tells only the widget, which by then takes no message.
    """

    def __init__(self, app: App[Any], report: Callable[[Exception], None]) -> None:
        super().__init__(app)
        self._report = report

    def _remove_worker(self, worker: Worker[Any]) -> None:
        super()._remove_worker(worker)
        if worker.state is WorkerState.ERROR and isinstance(worker.error, Exception):
            self._report(worker.error)


class TickNames:
    """Reads the tick of each result; the settings are read at the first use."""

    def __init__(self) -> None:
        self._rules: WaitRules | None = None

    def use(self, settings: Settings) -> None:
        """Take the names of fields from these settings."""
        from zoea.swarm.rules import WaitRules  # imported after the first paint

        self._rules = WaitRules.of(settings)

    def read_ticks(self, places: Places | None, memories: tuple[Memory, ...]) -> Mapping[int, float]:
        """Return the tick that each result tells, by the id of its memory. Call it in a thread.

        Args:
            places: Where the settings are; without them, or where they are invalid, the usual names count.
        """
        from zoea.swarm.turn.waits import told_ticks  # imported after the first paint

        if self._rules is None:
            self._rules = _read_rules(places)
        return told_ticks(memories, self._rules)


def _read_rules(places: Places | None) -> WaitRules:
    from zoea.settings.layers import load
    from zoea.settings.schema import Settings
    from zoea.swarm.rules import WaitRules

    try:
        return WaitRules.of(load(places).settings if places is not None else Settings())
    except ZoeaError:  # shown where the settings are used
        return WaitRules.of(Settings())


_log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")

DRAFTS_PAUSE_S, DRAFTS_SAVE_S = 0.5, 2.0
"""Seconds without typing after which unsent texts are saved, and seconds that saving them may take."""
MOST_UNDONE = 20
OTHER_WORKSPACE = "workspace "
"""Prefix of the app's result when another workspace shall be opened; its name follows."""


class UndoStep(Struct, frozen=True):
    """One command to one or several myses.

    Attributes:
        myses: Ids and names of those that took the command.
        command: Undoes it for one mysis, given its id.
        word: What they are afterwards: `restored`, `started again`.
    """

    myses: tuple[tuple[int, str], ...]
    command: Callable[[int], Awaitable[object]]
    word: str


class Cockpit(App[str]):
    """The base of the app.

    Args:
        opener: Opens the swarm; entered after the first paint, left at the end.
        config: The configuration directory, for themes.
        credentials: The file with keys, which is watched for changes.
        drafts: The file that keeps unsent texts for the next cockpit.
        early: The settings to start with; `use_settings` replaces them.
        stored: Reads the rows that are shown until the swarm is open; None where there are none to show.
        reduced_motion: Nothing blinks or moves, also when the settings allow it.
        sandbox_opener: As `opener`, with the sandbox world; without it the welcome screen offers none.
        now: Returns the time in microseconds since the epoch.
        clock: Returns seconds that never go back, for keys pressed twice and blinking cursors.
    """

    def __init__(
        self,
        opener: Opener,
        *,
        config: Path,
        credentials: Path | None = None,
        drafts: Path | None = None,
        early: EarlySettings = EARLY,
        reduced_motion: bool = False,
        sandbox_opener: Opener | None = None,
        stored: Callable[[], SwarmView | None] | None = None,
        now: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._workers = ReportedWorkers(self, self.report_defect)
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-normal"), (140, "-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-short"), (24, "-low"), (32, "-tall")]
        self.config = config
        self.now = now
        self.sandbox_opener = sandbox_opener
        self._read_stored = stored
        self.read_only_opener: Opener | None = None
        self.find_successor: Callable[[], Awaitable[Opener | None]] | None = None
        self.discovery_ports: Sequence[Any] | None = None
        self.marks: set[int] = set()
        self.pins: set[int] = set()
        self.row_filter = RowFilter()
        self.new_myses = StartOptions()
        self.undo: deque[UndoStep] = deque(maxlen=MOST_UNDONE)
        """The commands that can be undone, the newest last."""
        self.bookmarks: dict[int, object] = {}
        self.reported_defects: list[str] = []
        self.drafts = Drafts(drafts, self._save_drafts_soon)
        self._drafts_timer: Timer | None = None
        self.opening_wait = OpeningWait(lambda: self.is_opening, self.redraw_bars)
        self.type_ahead = TypeAhead(self, self.opening_wait)
        self.settings_watch = SettingsWatch(config, credentials)
        self.writes = WorkQueue(self.start_work)
        self.feed = SwarmFeed(self.feed_changed, self.feed_event, self.report_defect, now, self.type_ahead.is_busy)
        self.connection = SwarmConnection(opener, self.feed, self.opening_failed, lambda: self.start_leaving("stop"))
        self.approvals = OpenApprovals(lambda: self.api.approvals(), self.approvals_changed)
        self.arming = KeyArming(clock, self.redraw_bars)
        self.early = early
        self.tick_names = TickNames()
        self._leaving = ""
        self.terminal = TerminalControl(self.write_raw, lambda: self.bell() if self.early.bell else None)
        self._keeps_reduced_motion = reduced_motion
        self.cursors = CursorBlink(self._focused_widget, lambda: self.reduced_motion, clock)
        if self.reduced_motion:
            self.animation_level = "none"
        self.keys, _ = keymaps.resolve_keys(early.keys)
        self.is_ascii = not themes.has_utf8(os.environ)
        self._filters.append(themes.AsciiFilter() if self.is_ascii else themes.EmojiFilter())
        self._load_themes(early.theme)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a notice for `timeout` seconds, with hidden characters as escapes. May be called in a thread."""
        if title and self.size.height < LOW:  # the one line of a toast there would be its title alone
            message, title = prose_line(f"{title}: {message}"), ""
        lasts = timeout or self.NOTIFICATION_TIMEOUT
        self.post_message(Notify(TimedNotice(reveal(message), reveal(title), severity, lasts, markup=markup)))

    def on_notify(self, event: Notify) -> None:
        """Let a notice replace a shown one with the same words. Several reads may fail at once."""
        new = event.notification
        for shown in list(self._notifications):
            if (shown.title, shown.message, shown.severity) == (new.title, new.message, new.severity):
                self._unnotify(shown, refresh=False)

    # The swarm.

    @property
    def opened(self) -> OpenSwarm | None:
        """The open swarm; None while it opens, and where it could not be opened."""
        return self.connection.opened

    @property
    def database(self) -> Path | None:
        """The file of the open swarm; None where there is none."""
        return self.opened.database if self.opened is not None else None

    @property
    def is_opening(self) -> bool:
        """Whether the swarm opens and was not read yet."""
        return (self.opened is None or self.feed.view is None) and self.open_error is None

    @property
    def open_error(self) -> ZoeaError | None:
        """Why the swarm could not be opened."""
        return self.connection.error

    @property
    def api(self) -> SwarmApi:
        """The swarm's commands. Raises ZoeaError while it is not open."""
        return self.connection.api

    @property
    def places(self) -> Places:
        """The directories of the workspace, as far as they are known."""
        opened = self.opened
        if opened is not None and opened.places is not None:
            return opened.places
        data = opened.database.parent if opened is not None else self.config
        return Places(data=data, config=self.config, runtime=data)

    def ask_swarm(
        self,
        work: Coroutine[Any, Any, Any],
        *,
        done: Callable[[Any], None] | None = None,
        refused: Callable[[ZoeaError], None] | None = None,
    ) -> None:
        """Run a command of the swarm in a worker.

        Args:
            done: Called with the result.
            refused: Called with the error; without it the error is shown.
        """
        command = DeferredWork(work)

        async def run() -> None:
            try:
                result = await command
            except ZoeaError as error:
                (refused or self.show_error)(error)
            else:
                if done is not None:
                    done(result)

        self.start_work(run)

    def start_work(self, work: Callable[[], Coroutine[Any, Any, Any]], *, group: str = "") -> None:
        """Run a coroutine in a worker of the app, which outlives the screen.

        Args:
            group: Cancel the earlier work of this group.
        """
        self.run_worker(DeferredWork(work), exit_on_error=False, group=group or "default", exclusive=bool(group))

    def let_undo(
        self, myses: Iterable[tuple[int, str]], command: Callable[[int], Awaitable[object]], word: str
    ) -> None:
        """Remember how a command to these myses is undone, where any took it."""
        if taken := tuple(myses):
            self.undo.append(UndoStep(taken, command, word))
        self.redraw_bars()

    def _save_drafts_soon(self) -> None:
        """Save unsent texts once typing pauses. A process that is killed saves nothing at its end."""
        if self._drafts_timer is not None:
            self._drafts_timer.stop()
        self._drafts_timer = self.set_timer(DRAFTS_PAUSE_S, partial(self.start_work, self.save_drafts))

    async def save_drafts(self) -> None:
        """Write the unsent texts to their file now."""
        try:
            async with asyncio.timeout(DRAFTS_SAVE_S):  # another cockpit may hold the lock of the file
                await asyncio.to_thread(self.drafts.store)
        except SettingsError as error:
            _log.warning("unsent texts are not saved yet: %s", error.what)
        except TimeoutError:
            _log.warning("unsent texts are not saved yet: their file is locked")

    def copy(self, text: str) -> None:
        """Copy a text, and say so; nothing where it is empty."""
        if text:
            self.copy_to_clipboard(text)
            self.notify("Copied", markup=False, timeout=1.5)

    # Errors.

    def show_error(self, error: ZoeaError) -> None:
        """Show an error with its hint."""
        text = error.what if not error.hint else f"{error.what}\n{error.hint}"
        self.notify(text, title=error.title, severity="error", markup=False, timeout=8)

    def report_defect(self, error: Exception) -> None:
        """Log an unexpected error, and show it the first time; the cockpit goes on."""
        text = f"{type(error).__name__}: {error}"
        _log.error("the cockpit failed: %s", text, exc_info=error)
        if text not in self.reported_defects:
            self.reported_defects.append(text)
            self.show_error(ZoeaError(text, hint="The log file has the details."))

    def _fatal_error(self) -> None:
        """End because of an unexpected error. The report has no local variables: one may be a typed key."""
        import rich  # only needed at the end
        from rich.segment import Segments
        from rich.traceback import Traceback

        _log.exception("the cockpit ended because of an unexpected error")
        self.bell()
        report = Traceback(show_locals=False, width=None, suppress=[rich])
        self._exit_renderables.append(Segments(self.console.render(report, self.console.options)))
        self._close_messages_no_wait()

    # Actions.

    def build_context(self, *targets: MysisView | None, finding: bool = False) -> ActionContext:
        """Return what decides which actions are possible, for these targets; None is one that went."""
        view, opened = self.feed.view, self.opened
        return ActionContext(
            targets=tuple(view for view in targets if view is not None),
            shown=len(self.feed.myses),
            approvals=len(self.approvals.open),
            held=bool(view and view.held),
            is_ready=opened is not None and view is not None,
            can_undo=bool(self.undo),
            is_owner=opened.is_owner if opened else True,
            finding=finding,
            has_sandbox=self.sandbox_opener is not None,
            read_only_reason=opened.read_only_reason if opened else "",
            writes_files=opened.writes_files if opened else True,
            failure=self.open_error.what if self.open_error is not None else "",
            in_need=len(self.feed.roster.in_need),
            busy=sum(count for word, count in self.feed.roster.statuses.items() if word not in AT_REST),
            ended=self.feed.roster.ended.total(),
        )

    def choose_audience(self) -> Audience:
        """Return the myses of a command to many: the marked, else the filtered, else all."""
        return Audience.choose(self.feed.in_order(), self.marks, self.row_filter)

    def action_context(self) -> ActionContext:
        """Return the context as the screen on top sees it. Implemented by the app."""
        raise NotImplementedError

    def find_action(self, action: Action, screen: Screen[Any]) -> Callable[[], object] | None:
        """Return what carries an action out: a screen, else the app. Implemented by the app."""
        raise NotImplementedError

    def action_do(self, action_id: str, again: Callable[[], object] | None = None) -> None:
        """Carry out an action on the top screen, or show why it is not possible.

        Args:
            again: Gives the same action once the swarm is open.
        """
        action = BY_ID[action_id]
        context = self.action_context()
        if why := action.why_not(context):
            once_open = again or partial(self._do_once_open, action, context.targets)
            if why != OPENING or not self.opening_wait.defer(once_open):
                self._refuse(action, why)
        elif (carry_out := self.find_action(action, self.screen)) is None:
            self._refuse(action, action.elsewhere)
        else:
            carry_out()

    def _do_once_open(self, action: Action, targets: tuple[MysisView, ...]) -> None:
        """Carry out an action that waited, where it still concerns the same myses."""
        now = self.action_context().targets
        if needs_target(action.requires) and [view.id for view in targets] != [view.id for view in now]:
            self._refuse(action, "the list was not there yet: press it again")
        else:
            self.action_do(action.id)

    def _refuse(self, action: Action, why: str) -> None:
        """Show why an action is not possible, and drop the text typed for it."""
        self.notify(begin_sentence(why), title=action.title, severity="warning", markup=False)
        if action.takes_text:
            self.type_ahead.discard_text()

    def act_on_mysis(self, action_id: str, mysis_id: int) -> None:
        """Go back to the dashboard, select one mysis and carry out an action. Implemented by the app."""
        raise NotImplementedError

    # Leaving.

    async def leave(self, how: str = "stop") -> None:
        """Close the swarm, then the app, which returns `how`; within ten seconds."""
        await self.connection.close()
        self.approvals.close()
        self.terminal.close()
        self.exit(self._leaving or how)

    def leave_now(self) -> None:
        """Exit at once; the process ends what still closes."""
        self.connection.abandon()
        self.terminal.close()
        self.exit("stop")

    def start_leaving(self, how: str) -> None:
        """Begin to leave, in a worker. An end of the swarm is not taken back by a later hangup."""
        self._leaving = "stop" if self._leaving == "stop" else how
        self.start_work(lambda: self.leave(how))

    # News for the screens: implemented by the app.

    def feed_changed(self, ids: frozenset[int]) -> None:
        """Tell every screen which myses changed or went; none for the whole swarm."""
        raise NotImplementedError

    def feed_event(self, event: Event) -> None:
        """Tell every screen of an event."""
        raise NotImplementedError

    def approvals_changed(self) -> None:
        """Tell every screen that the open approvals changed."""
        raise NotImplementedError

    def redraw_bars(self) -> None:
        """Redraw header and footer of every screen."""
        raise NotImplementedError

    def theme_changed(self) -> None:
        """Tell every screen that the theme changed."""
        raise NotImplementedError

    def opening_failed(self, error: ZoeaError) -> None:
        """Show that the swarm could not be opened."""
        raise NotImplementedError

    # The terminal.

    def write_raw(self, sequence: str) -> None:
        """Write an escape sequence to the terminal, except while another program has it."""
        if self._driver is not None and not self._batch_count:
            self._driver.write(sequence)

    def _focused_widget(self) -> Widget | None:
        return self.focused if self.screen_stack else None

    # Themes, keys, motion.

    def _load_themes(self, name: str) -> None:
        """Read the themes before the first style file, which uses their variables."""
        self._theme_stamps = themes.read_file_stamps(self.config)
        self.theme_specs, self.theme_errors = themes.load_themes(self.config)
        self.theme_spec = self.theme_specs.get(name) or self.theme_specs[themes.DEFAULT]
        self.role_styles = RoleStyles(self.theme_spec, no_color=self.no_color)
        for spec in self.theme_specs.values():
            self.register_theme(spec.theme())
        self.theme = self.theme_spec.name

    def use_theme(self, name: str) -> None:
        """Show another theme."""
        self.theme_spec = self.theme_specs[name]
        self.role_styles = RoleStyles(self.theme_spec, no_color=self.no_color)
        self.theme = name
        self.theme_changed()

    def find_themes(self) -> None:
        """Read the theme files again where one was added, changed or removed."""
        stamps = themes.read_file_stamps(self.config)
        if stamps != self._theme_stamps:
            self._theme_stamps = stamps
            self.reload_themes()

    def reload_themes(self) -> list[SettingsError]:
        """Read the theme files again and show what changed. Returns the errors of invalid files."""
        found, errors = themes.load_themes(self.config)
        current = self.theme_spec
        for name in set(self.theme_specs) - set(found) - {current.name}:
            self.unregister_theme(name)
        has_changed = found.get(current.name, current) != current
        # The current theme stays as it was where its file is invalid now.
        self.theme_specs = {current.name: current, **found}
        self.theme_errors = errors
        for spec in self.theme_specs.values():
            self.register_theme(spec.theme())
        if has_changed:
            self.use_theme(current.name)
            # Textual reacts to another name only, so the styles are computed again here.
            self._invalidate_css()
            self.refresh_css(animate=False)
        return errors

    @property
    def glyphs(self) -> dict[str, str]:
        """The theme's glyphs, or ASCII ones where the terminal has no UTF-8."""
        return dict(themes.ASCII_GLYPHS if self.is_ascii else self.theme_spec.glyphs)

    def key(self, action_id: str) -> str:
        """Return the key of an action as people write it."""
        return key_name(self.keys[action_id])

    def use_keys(self, chosen: Mapping[str, str]) -> None:
        """Put a person's keys in force over the defaults, and show the invalid ones."""
        self.keys, wrong = keymaps.resolve_keys(chosen)
        self.set_keymap({name: key for name, key in self.keys.items() if key != BY_ID[name].key})
        if wrong:
            text = "\n".join(f"tui.keys: {message}" for message in dict.fromkeys(wrong.values()))
            self.notify(text, title="Invalid keys", severity="error", markup=False, timeout=20)
        self.redraw_bars()

    def use_settings(self, settings: Settings) -> None:
        """Put the settings of the cockpit in force."""
        before, self.early = self.early, EarlySettings.of(settings)
        self.tick_names.use(settings)
        self.use_keys(self.early.keys)
        self.animation_level = "none" if self.reduced_motion else "full"
        self.cursors.settle()
        if self.early != before:
            self.theme_changed()  # draws everything again

    @property
    def reduced_motion(self) -> bool:
        """Whether nothing blinks or moves."""
        return self.early.reduced_motion or self._keeps_reduced_motion
