"""Delivers keys one after another: each one meets what the keys before it have opened.

Textual forwards a key to the focused widget as soon as it arrives. The action of an earlier key may still be pushing a
screen or moving the focus then, so that a text typed quickly after `b` would run as commands.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from textual.app import App, ScreenStackError
from textual.events import Key, Paste
from textual.message_pump import MessagePump
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, TextArea


class OpeningWait:
    """Holds actions until the swarm is open, or could not be opened.

    Args:
        is_opening: Whether the swarm is still to come.
        changed: Called when actions begin or cease to wait.
    """

    def __init__(self, is_opening: Callable[[], bool], changed: Callable[[], None]) -> None:
        self._is_opening = is_opening
        self._changed = changed
        self._works: list[Callable[[], object]] = []

    @property
    def holds_keys(self) -> bool:
        """Whether an action waits, so that the keys after it wait too."""
        return bool(self._works)

    def defer(self, work: Callable[[], object]) -> bool:
        """Keep an action until `settle`; False where the swarm is not opening."""
        if not self._is_opening():
            return False
        self._works.append(work)
        self._changed()
        return True

    def settle(self) -> None:
        """Carry out what waits, in order, once the swarm is no longer opening."""
        if self._works and not self._is_opening():
            works, self._works = self._works, []
            for work in works:
                work()
            self._changed()

    def drop(self) -> bool:
        """Forget what waits. False where nothing did."""
        had, self._works = bool(self._works), []
        if had:
            self._changed()
        return had


_WITHIN_S = 2.0


class KeyArming:
    """Remembers the first press of at most one key.

    Args:
        clock: Returns seconds that never go back.
        changed: Called when `note` changed.
    """

    def __init__(self, clock: Callable[[], float], changed: Callable[[], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._what = ""
        self._until = 0.0
        self._note = ""
        self._key = ""

    @property
    def note(self) -> str:
        """What a second press does; empty where no key is armed."""
        return self._note if self._clock() < self._until else ""

    def press(self, what: str, note: str) -> bool:
        """Arm a key. True on the second press in time."""
        if what == self._what and self._clock() < self._until:
            self.disarm()
            return True
        self._what, self._note, self._until = what, note, self._clock() + _WITHIN_S
        self._changed()
        return False

    def saw(self, key: str) -> None:
        """Disarm when another key than the armed one was pressed."""
        if self._what and key != self._key:
            self.disarm()
        self._key = key

    def disarm(self) -> None:
        self._what, self._note, self._until = "", "", 0.0
        self._changed()


_QUIET_ROUNDS = 3
"""Rounds without a change of screen or focus, because one effect may be a message that has the next effect."""
_POLL_S = 0.005
_LOOK_S = 0.05
"""Seconds between looks whether a widget that has not answered still runs."""
HOLD_S = 2.0
"""Seconds that a screen may hold keys back at most."""
PUMP_S = 10.0
"""Seconds after which widgets that handle no message are no longer waited for, however many they are."""
PATIENCE_S = 2.0
"""Seconds after which ctrl+c drops the keys that wait; those that wait for the swarm it drops at once."""
MOVES = ("up", "down", "pageup", "pagedown", "j", "k")
"""Keys that only move a cursor, where no input has the focus."""
BURST_S = 0.05
"""Keys that follow each other faster belong to one burst."""
PAUSE_S = 0.4
"""A person who types a text makes no longer pauses between its letters."""


@runtime_checkable
class DecisionScreen(Protocol):
    """A screen that ignores deciding keys typed before it was shown, if `IS_SEEN_FIRST`."""

    IS_SEEN_FIRST: bool


class TypeAhead:
    """Holds keys and pasted texts until the effects of the earlier ones are complete.

    Consecutive keys of one kind that opens nothing pass at once: text for a focused input, and moves of a cursor. The
    next key of another kind waits until they have their effect.

    Args:
        opening: Holds keys as long as an action waits for the swarm.
    """

    def __init__(self, app: App[Any], opening: OpeningWait) -> None:
        self._app = app
        self._opening = opening
        self._held: deque[Key | Paste] = deque()
        self._released: deque[Key | Paste] = deque()
        self._task: asyncio.Task[None] | None = None
        self._touched: dict[MessagePump, None] = {}
        self._in_flight = ""
        self._admitted = 0
        self._begun = 0.0
        self._discards_until = 0.0
        self._discards_text_until = 0.0
        self._burst: tuple[float, object, bool] = (0.0, None, False)
        """When the keys began that came at once, and which screen they met, and whether an input."""

    @property
    def waiting(self) -> int:
        """The number of events that wait."""
        return len(self._held) + len(self._released)

    def is_busy(self) -> bool:
        """Return whether the effects of a key or click are not complete."""
        return self._task is not None

    def admit(self, event: Key | Paste) -> bool:
        """Return whether the app may handle this event now. Else it is posted again later, or dropped."""
        kind = self._find_kind(event)
        if self._released and event is self._released[0]:
            self._released.popleft()
        elif isinstance(event, Key) and event.key == "ctrl+c" and self._is_stuck():
            self._held.clear()
        elif event.time < self._discards_until:  # typed before that, however late it comes here
            self._discards_until = time.monotonic() + BURST_S
            return False
        elif self._is_unwanted_text(event):
            self._discards_text_until = time.monotonic() + PAUSE_S
            return False
        elif self._task is not None and (self._held or self._released or not kind or kind != self._in_flight):
            self._held.append(event)
            return False
        if self._decides_unseen(event):
            why = "The last key does not count, because it came at once with the one that opened this: press it again"
            self._app.notify(why, severity="warning", markup=False)
            return False
        self._watch()
        self._in_flight = kind
        return True

    def watch_click(self) -> None:
        """Hold the next keys until the effects of a click are complete."""
        self._watch()
        self._in_flight = ""

    def discard(self) -> None:
        """Drop the rest of a burst of keys, because their input did not open."""
        self._held.clear()
        self._discards_until = time.monotonic() + BURST_S

    def discard_text(self) -> None:
        """Drop the text typed for an input that did not open, up to a pause."""
        self.discard()
        self._discards_text_until = time.monotonic() + PAUSE_S

    def _decides_unseen(self, event: Key | Paste) -> bool:
        """Return whether a key would submit or answer a dialog that was not shown yet.

        A line that is pasted without marks is such keys: no person has seen what it opened.
        """
        if (screen := self._screen) is None:
            return False
        has_input = isinstance(self._app.focused, Input | TextArea)
        if event.time != self._burst[0]:
            self._burst = event.time, screen, has_input
        if (
            not (isinstance(screen, DecisionScreen) and screen.IS_SEEN_FIRST)
            or not isinstance(event, Key)
            or self._is_text(event)
        ):
            return False
        is_dialog = isinstance(screen, ModalScreen)
        if screen is self._burst[1] and (is_dialog or not has_input or self._burst[2]):
            return False
        return event.key == "enter" if has_input else is_dialog and event.is_printable

    def _is_unwanted_text(self, event: Key | Paste) -> bool:
        is_text = isinstance(event, Paste) or event.is_printable or event.key == "enter"
        return is_text and event.time < self._discards_text_until and not self._is_text(event)

    def _watch(self) -> None:
        self._admitted += 1
        self._touch()
        if self._task is None:
            self._begun = time.monotonic()
            self._task = asyncio.create_task(self._deliver())

    async def _deliver(self) -> None:
        """Post the events that wait, each after the effects of the one before. Consecutive text at once."""
        try:
            await self._wait_for_effects()
            while self._held and self._app.is_running:
                self._release()
                kind = self._find_kind(self._released[-1])
                while self._held and kind and self._find_kind(self._held[0]) == kind:
                    self._release()
                await self._wait_for_effects()
        finally:
            self._task = None
            self._released.clear()

    def _release(self) -> None:
        event = self._held.popleft()
        self._released.append(event)
        self._begun = time.monotonic()
        self._app.post_message(event)

    async def _wait_for_effects(self) -> None:
        """Wait until the widgets have no message left and the screen can take a key."""
        quiet, begun = 0, time.monotonic()
        while quiet < _QUIET_ROUNDS and self._app.is_running:
            before = self._state()
            await self._pass(begun + PUMP_S)
            is_ready = self._is_screen_ready()
            # Not `isinstance` of a protocol, which takes long and is asked often while a key waits.
            holds = is_ready and getattr(self._screen, "holds_keys", False) and time.monotonic() < begun + HOLD_S
            if holds or self._opening.holds_keys or not is_ready:
                await asyncio.sleep(_POLL_S)
                quiet = 0
            else:
                quiet = quiet + 1 if before == self._state() else 0
        self._touched.clear()

    async def _pass(self, until: float) -> None:
        """Wait until app and touched widgets, one after another, have handled their messages."""
        passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left = (pump for find in (lambda: [self._app], self._touch) for pump in find())
        waited: MessagePump | None = self._app

        def go_on(after: MessagePump | None) -> None:
            # Each pump asks the next one itself, because every return to this task takes two more turns of the loop.
            nonlocal waited
            if after is not waited:
                return  # it is no longer waited for
            waited = next((pump for pump in left if pump.call_later(go_on, pump)), None)
            if waited is None:
                passed.set_result(None)

        go_on(waited)
        while not passed.done() and time.monotonic() < until:
            await asyncio.wait((passed,), timeout=_LOOK_S)
            if waited is not None and not waited.is_running:
                go_on(waited)

    def _touch(self) -> Sequence[MessagePump]:
        """Remember the widgets that a key reaches now, and return all touched ones."""
        if (screen := self._screen) is not None:
            self._touched |= dict.fromkeys((self._app.focused or screen).ancestors_with_self)
        return [pump for pump in self._touched if pump is not self._app]

    @property
    def _screen(self) -> Screen[object] | None:
        try:
            return self._app.screen
        except ScreenStackError:
            return None

    def _state(self) -> tuple[object, object, int]:
        screen = self._screen
        return screen, self._app.focused if screen is not None else None, self._admitted

    def _is_screen_ready(self) -> bool:
        screen = self._screen
        return screen is not None and screen.is_mounted

    def _is_stuck(self) -> bool:
        return self._task is not None and (self._opening.holds_keys or time.monotonic() - self._begun > PATIENCE_S)

    def _find_kind(self, event: Key | Paste) -> str:
        """Return `text` or `move` for an event that opens nothing here. Empty for one that may open something."""
        if self._is_text(event):
            return "text"
        is_free = isinstance(event, Key) and event.key in MOVES and not isinstance(self._app.focused, Input | TextArea)
        return "move" if is_free and self._is_screen_ready() else ""

    def _is_text(self, event: Key | Paste) -> bool:
        """Return whether the event is text for the input that has the focus."""
        focused = self._app.focused if self._is_screen_ready() else None
        if not isinstance(focused, Input | TextArea) or (isinstance(focused, TextArea) and focused.read_only):
            return False
        return isinstance(event, Paste) or event.is_printable
