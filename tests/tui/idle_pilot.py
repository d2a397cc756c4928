"""Pilot that waits until the cockpit is idle, instead of measuring CPU time.

Textual's own pilot sleeps at least 40 ms after every key, up to a second on a busy machine. Here a key is done when
every queue is empty, every message pump waits, the screen is painted and the work that the key started has ended.
"""

from __future__ import annotations

import asyncio
import unicodedata
import weakref
from typing import Any, cast

from textual import events
from textual.app import App
from textual.keys import REPLACED_KEYS, _character_to_key, _get_unicode_name_from_key
from textual.message_pump import MessagePump
from textual.pilot import Pilot
from textual.screen import Screen

SPINS = 50
"""Turns of the event loop before a busy pump is polled in real time, every `POLL_S`."""
POLL_S = 0.002
LASTING_S = 3.0
"""Work that has not ended after this time, while every pump waits, is not waited for again.

Longer than any thread takes for its answer on a machine that has much else to do.
"""
TURNS_OF_A_KEY = 3
"""Turns of the event loop until an app that waits has got a key."""
EFFECTS_S = 0.05
"""Time after which the effects of keys are waited for as other work is, because something holds them back."""
TIMEOUT_S = 20.0
"""Time after which a busy pump is no longer waited for."""
MOST_WAITERS = 1_000
"""Futures of waiting pumps that are remembered."""
_ALWAYS = ("MessagePump._process_messages", "Timer._run_timer", "App.run_test.<locals>.run_app")
_FOLLOWS = (
    "SwarmConnection._run",
    "SwarmConnection._watch_end",
    "SwarmFeed.follow",
    "SwarmFeed._follow_changes",
    "SwarmFeed._follow_events",
    "SwarmFeed._measure",
    "DashboardScreen._read_broadcasts",
)
"""Background tasks that run all the time."""
_FOLLOWING_GROUPS = ("live",)
"""Groups of workers that run all the time."""


def key_event(key: str) -> events.Key:
    """Build the event that a terminal would send for a key."""
    if len(key) == 1 and not key.isalnum():
        key = _character_to_key(key)
    try:
        return events.Key(key, unicodedata.lookup(_get_unicode_name_from_key(REPLACED_KEYS.get(key, key))))
    except KeyError:
        return events.Key(key, key if len(key) == 1 else None)


class IdlePilot(Pilot[str]):
    """Pilot whose keys, clicks and resizes return once the app is idle."""

    def __init__(self, app: App[str]) -> None:
        super().__init__(app)
        self._lasting = weakref.WeakSet[asyncio.Task[Any]]()
        self._busy: MessagePump = app
        self._waiters = set[Any]()

    async def press(self, *keys: str) -> None:
        for key in keys:
            self.post(key)
            await self._have_effect()
            await self._stand_still()

    async def press_in_a_burst(self, *keys: str) -> None:
        """Press keys as a terminal does that sends them in one write. Wait until the app is idle after the last."""
        for key in keys:
            self.post(key)
        await self._have_effect()
        await self._stand_still()

    def post(self, key: str) -> None:
        """Give the app a key, and wait for nothing."""
        event = key_event(key)
        event.set_sender(self.app)
        self.app.post_message(event)

    async def click(self, *at: Any, **more: Any) -> bool:
        """Click as Textual's pilot does; a double click counts however slow the machine is."""
        within = self.app.CLICK_CHAIN_TIME_THRESHOLD
        self.app.CLICK_CHAIN_TIME_THRESHOLD = TIMEOUT_S if more.get("times", 1) > 1 else within  # type: ignore[misc]  # of this app alone
        try:
            return await super().click(*at, **more)
        finally:
            self.app.CLICK_CHAIN_TIME_THRESHOLD = within  # type: ignore[misc]  # as it was

    async def _have_effect(self) -> None:
        """Wait until the cockpit has seen the effects of its keys. It asks less often than this pilot."""
        if (keys := getattr(self.app, "type_ahead", None)) is not None:
            for _ in range(TURNS_OF_A_KEY):
                if (task := keys._task) is not None:
                    await asyncio.wait((task,), timeout=EFFECTS_S)
                    break
                await asyncio.sleep(0)

    async def pause(self, delay: float | None = None) -> None:
        if delay is not None:
            await asyncio.sleep(delay)
        await self._stand_still()

    async def _wait_for_screen(self, timeout: float = 30.0) -> bool:
        await self._stand_still()
        return self.app._exception is None

    async def rest(self) -> None:
        """Wait until every pump waits, whether or not work goes on."""
        await self._comes_to_rest(asyncio.get_running_loop().time() + TIMEOUT_S)

    async def _stand_still(self) -> None:
        """Wait until no work is left; wait for lasting work only once."""
        ends = asyncio.get_running_loop().time() + TIMEOUT_S
        while self.app._exception is None and await self._comes_to_rest(ends):
            begun = self._begun()
            if not begun:
                break
            ended, going_on = await asyncio.wait(begun, timeout=LASTING_S, return_when=asyncio.FIRST_COMPLETED)
            if not ended:
                self._lasting |= going_on
                break

    async def _comes_to_rest(self, ends: float) -> bool:
        """Wait until every pump waits and the screen is painted; return False on a timeout."""
        turns = quiet = 0
        while quiet < 3:
            await asyncio.sleep(0 if turns < SPINS else POLL_S)
            turns += 1
            if self.app._exception is not None or asyncio.get_running_loop().time() > ends:
                return False
            if not self._is_quiet():
                quiet = 0
                continue
            quiet = 0 if self._has_callbacks() else quiet + 1
            self._paint()
        return True

    def _paint(self) -> None:
        """Paint what the next frame would paint."""
        if (screen := self._top()) is not None:
            screen._on_timer_update()

    def _is_quiet(self) -> bool:
        """Return whether every pump waits."""
        if not _is_waiting(self._busy):  # the one that was at work when it was last asked still is, most often
            return False
        waiters, registry = self._waiters, cast("Any", self.app._registry)
        for pump in (self.app, *[pump for each in list(registry.data) if (pump := each()) is not None]):
            # Most pumps wait for the same message as when they were last asked.
            waiter = getattr(pump._task, "_fut_waiter", None)
            if waiter is not None and waiter in waiters and not waiter.done():
                continue
            if not _is_waiting(pump):
                self._busy = pump
                return False
            waiters.add(waiter)
        if len(waiters) > MOST_WAITERS:
            waiters.clear()
        return True

    def _has_callbacks(self) -> bool:
        """Return whether the next frame of the screen will call something."""
        screen = self._top()
        return screen is not None and bool(screen._callbacks) and not self.app._exit

    def _top(self) -> Screen[Any] | None:
        """Return the top screen; None while the app starts or ends."""
        stack = self.app._screen_stacks.get(self.app._current_mode)
        return stack[-1] if stack else None

    def _begun(self) -> set[asyncio.Task[Any]]:
        """Return the tasks of the cockpit that may still end."""
        apart = {asyncio.current_task(), *(each._task for each in self.app.workers if each.group in _FOLLOWING_GROUPS)}
        return {
            task for task in asyncio.all_tasks() if task not in self._lasting and task not in apart and _is_work(task)
        }


def _is_work(task: asyncio.Task[Any]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    if code is None or code.co_qualname in (*_ALWAYS, *_FOLLOWS):
        return False
    return "/zoea/tui/" in code.co_filename or "/textual/" in code.co_filename


def _is_waiting(pump: MessagePump) -> bool:
    if pump._task is None or pump._task.done():
        return True
    queue: Any = pump._message_queue
    for waiter in queue.ready_event._waiters:
        if not waiter.done():
            return bool(queue.empty())
    return False
