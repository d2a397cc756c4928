"""Admission gate of a provider: bounds how many requests of all myses run at once.

Requests that answer a person enter first, then the others in order of arrival, each into one of `concurrency` places.
A place is free again when its request has ended, but not before 100 ms after the head of its answer: the server saw the
request before it answered, so that it sees at most `concurrency` requests in any 100 ms.

A refusal (429, 503) with a time closes the gate until then. A ramp follows: one request tries, each success opens one
place more, a refusal without a time halves them. Waiting requests spend no attempt.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from zoea.model.ports import Clock, Timer
from zoea.model.request import RequestHeld
from zoea.text.sentences import count_of

APART_US = 100_000
MAX_PAUSE_S = 300.0
TELL_US = 1_000_000
"""How often waiting requests hear their new place: the first `TOLD_OFTEN` each time, all each tenth time."""
TOLD_OFTEN = 50


class AdmissionGate:
    """Admits requests in order. `rate` is requests a second, evenly spaced; None for no rate.

    Its times are those of `Clock.uptime`: a wall clock that is set must not stop a provider.
    """

    def __init__(self, clock: Clock, *, concurrency: int = 32, rate: float | None = None) -> None:
        self._clock = clock
        self.concurrency = max(1, concurrency)
        self._interval = round(1_000_000 / rate) if rate else 0
        self._open = self.concurrency
        self._taken = 0
        self._queue: deque[AdmissionTicket] = deque()
        self._paused_until = 0
        self._next_start = 0
        self._lowered_at = -1
        self._timer: Timer | None = None
        self._timer_at = 0
        self._tells = 0
        self._is_telling = False

    def set_concurrency(self, places: int) -> None:
        """Change how many requests may be under way. Those that are over it go on to their end."""
        places = max(1, places)
        if places == self.concurrency:
            return
        was_whole = self._open >= self.concurrency
        self.concurrency = places
        self._open = places if was_whole else min(self._open, places)
        self._admit()

    @property
    def under_way(self) -> int:
        return self._taken

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def enter_queue(self, *, by_person: bool = False) -> AdmissionTicket:
        """Add a ticket to the queue; the caller always calls `leave` in the end."""
        before = len(self._queue)
        if by_person:
            before = next((place for place, other in enumerate(self._queue) if not other.by_person), before)
        ticket = AdmissionTicket(self, before + 1, by_person=by_person)
        self._queue.insert(before, ticket)
        self._admit()
        if self._queue and not self._is_telling:
            self._is_telling = True
            self._clock.call_after(TELL_US, self._tell_places)
        return ticket

    def _tell_places(self) -> None:
        self._is_telling = bool(self._queue)
        if not self._is_telling:
            return
        self._tells += 1
        for place, ticket in enumerate(self._queue, 1):
            if place > TOLD_OFTEN and self._tells % 10:
                break
            ticket._move_to(place)
        self._clock.call_after(TELL_US, self._tell_places)

    def hold(self, place: int = 0) -> RequestHeld:
        """Return why the gate admits no request now, and until when if that is known."""
        now = self._clock.uptime()
        if now < self._paused_until:
            return RequestHeld("the provider asked to wait", self._wall_time(self._paused_until), place)
        if self._taken < self._open and now < self._next_start:
            return RequestHeld("the provider's rate is reached", self._wall_time(self._next_start), place)
        return RequestHeld(
            f"{count_of(self._taken, 'request')} {'is' if self._taken == 1 else 'are'} under way", place=place
        )

    def _wall_time(self, at: int) -> int:
        """Convert a time of the gate for people."""
        return self._clock.now() + at - self._clock.uptime()

    def _admit(self) -> None:
        """Admit all that may enter now, and set the timer for the next."""
        now = self._clock.uptime()
        while self._queue:
            opens = max(self._paused_until, self._next_start)
            if now < opens:
                self._wake_at(opens)
                return
            if self._taken >= self._open:
                return
            ticket = self._queue.popleft()
            self._taken += 1
            if self._interval:
                self._next_start = max(now, self._next_start) + self._interval
            ticket._enter(now)

    def _wake_at(self, at: int) -> None:
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._clock.call_after(at - self._clock.uptime(), self._woken)

    def _woken(self) -> None:
        self._timer = None
        self._admit()

    def _freed(self) -> None:
        self._taken -= 1
        self._admit()

    def _later(self, delay: int, action: Callable[[], None]) -> None:
        self._clock.call_after(delay, action)

    def _succeeded(self, entered_at: int) -> None:
        if entered_at > self._lowered_at and self._open < self.concurrency:
            self._open += 1

    def _refused(self, entered_at: int, retry_after: float | None) -> None:
        now = self._clock.uptime()
        if retry_after is None:
            if entered_at > self._lowered_at:
                self._lowered_at = now
                self._open = max(1, self._open // 2)
            return
        self._lowered_at = now
        self._open = 1
        until = now + round(min(retry_after, MAX_PAUSE_S) * 1_000_000)
        was_open = self._paused_until <= now
        self._paused_until = max(self._paused_until, until)
        if was_open:
            for ticket in self._queue:
                ticket._tell()


class AdmissionTicket:
    """One request at the gate: it waits, is admitted, and leaves."""

    __slots__ = ("_answered_at", "_changed", "_entered_at", "_gate", "_left", "_place", "by_person")

    def __init__(self, gate: AdmissionGate, place: int, *, by_person: bool) -> None:
        self._gate = gate
        self._place = place
        self.by_person = by_person
        self._changed: asyncio.Event | None = None
        self._entered_at: int | None = None
        self._answered_at: int | None = None
        self._left = False

    @property
    def is_admitted(self) -> bool:
        return self._entered_at is not None

    def hold(self) -> RequestHeld:
        return self._gate.hold(self._place)

    async def wait_for_change(self) -> None:
        """Wait until it is admitted, or the reason for waiting has changed."""
        if self.is_admitted:
            return
        if self._changed is None:
            self._changed = asyncio.Event()
        self._changed.clear()
        await self._changed.wait()

    def note_answer(self) -> None:
        """Note that the head of a good answer has come."""
        assert self._entered_at is not None
        self._answered_at = self._gate._clock.uptime()
        self._gate._succeeded(self._entered_at)
        self._gate._admit()

    def note_refusal(self, retry_after: float | None) -> None:
        """Note that the provider is overloaded; seconds to wait, or None if it named none."""
        assert self._entered_at is not None
        self._answered_at = self._gate._clock.uptime()
        self._gate._refused(self._entered_at, retry_after)

    def leave(self) -> None:
        """Free the place, or the place in the queue. May be called twice."""
        if self._left:
            return
        self._left = True
        if self._entered_at is None:
            self._gate._queue.remove(self)
            return
        now = self._gate._clock.uptime()
        free_at = (now if self._answered_at is None else self._answered_at) + APART_US
        if now >= free_at:
            self._gate._freed()
        else:
            self._gate._later(free_at - now, self._gate._freed)

    def _enter(self, now: int) -> None:
        self._entered_at = now
        self._tell()

    def _move_to(self, place: int) -> None:
        if place != self._place:
            self._place = place
            self._tell()

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed.set()
