"""Admission gate of a provider: bounds how many requests of all myses run at once.

Requests that answer a person enter first, then the others in order of arrival, each into one of `concurrency` places.
A place is free again when its request has ended, but not before 100 ms after the head of its answer: the server saw the
request before it answered, so that it sees at most `concurrency` requests in any 100 ms.

A refusal (429, 503) with a time closes the lane of its model until then, because vendors limit each model by itself.
A ramp follows: one request tries, each success opens one place more, a refusal without a time halves them. A request
whose answer has not begun after 10 s no longer counts for the ramp. Waiting requests spend no attempt.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial

from zoea.model.ports import Clock, Timer
from zoea.model.request import RequestHeld
from zoea.model.values import Throttle
from zoea.text.sentences import count_of

APART_US = 100_000
MAX_PAUSE_S = 300.0
SILENT_US = 10_000_000
"""After so long without the head of an answer a request no longer counts for the ramp of its model."""
TELL_US = 1_000_000
"""How often waiting requests hear their new place: the first `TOLD_OFTEN` each time, all each tenth time."""
TOLD_OFTEN = 50
_FOR_EVER = 2**63


class _Lane:
    """The requests for one model: those that wait and those under way.

    Attributes:
        open: The places that the ramp has opened; None without a ramp.
    """

    __slots__ = ("lowered_at", "model", "open", "paused_until", "queue", "under_way")

    def __init__(self, model: str) -> None:
        self.model = model
        self.open: int | None = None
        self.paused_until = 0
        self.lowered_at = -1
        self.queue: deque[AdmissionTicket] = deque()
        self.under_way: set[AdmissionTicket] = set()

    def find_opening(self, now: int) -> int | None:
        """Return when the next request may enter. None where one under way has to end first."""
        if self.open is None:
            return self.paused_until
        starts = sorted([one.counts_until for one in self.under_way if one.counts_until > now])
        if len(starts) < self.open:
            return self.paused_until
        opening = starts[len(starts) - self.open]
        return None if opening == _FOR_EVER else max(opening, self.paused_until)


class AdmissionGate:
    """Admits requests in order. `rate` is requests a second, evenly spaced; None for no rate.

    Its times are those of `Clock.uptime`: a wall clock that is set must not stop a provider.

    Args:
        name: The provider, as people see it.
    """

    def __init__(self, clock: Clock, *, concurrency: int = 32, rate: float | None = None, name: str = "") -> None:
        self._clock = clock
        self._name = name
        self.concurrency = max(1, concurrency)
        self._interval = round(1_000_000 / rate) if rate else 0
        self._taken = 0
        self._lanes: dict[str, _Lane] = {}
        self._arrivals = 0
        self._next_start = 0
        self._timer: Timer | None = None
        self._timer_at = 0
        self._tells = 0
        self._is_telling = False

    def set_concurrency(self, places: int) -> None:
        """Change how many requests may be under way. Those that are over it go on to their end."""
        self.concurrency = max(1, places)
        self._admit()

    @property
    def under_way(self) -> int:
        return self._taken

    @property
    def waiting(self) -> int:
        return sum([len(lane.queue) for lane in self._lanes.values()])

    def list_throttles(self) -> tuple[Throttle, ...]:
        """Return the limits that keep requests back now, by model."""
        now = self._clock.uptime()
        return tuple(
            [
                Throttle(
                    lane.model,
                    self._wall_time(lane.paused_until) if lane.paused_until > now else None,
                    min(lane.open, self.concurrency),
                )
                for lane in sorted(self._lanes.values(), key=lambda lane: lane.model)
                if lane.open is not None and (lane.queue or lane.paused_until > now)
            ]
        )

    def enter_queue(self, model: str = "", *, by_person: bool = False) -> AdmissionTicket:
        """Add a ticket to the queue of a model. The caller always calls `leave` in the end."""
        lane = self._lanes.get(model)
        if lane is None:
            lane = self._lanes[model] = _Lane(model)
        before = len(lane.queue)
        if by_person:
            before = next((place for place, other in enumerate(lane.queue) if not other.by_person), before)
        self._arrivals += 1
        ticket = AdmissionTicket(self, lane, before + 1, self._arrivals, by_person=by_person)
        lane.queue.insert(before, ticket)
        self._admit()
        if lane.queue and not self._is_telling:
            self._is_telling = True
            self._clock.call_after(TELL_US, self._tell_places)
        return ticket

    def _tell_places(self) -> None:
        waiting = [lane.queue for lane in self._lanes.values() if lane.queue]
        self._is_telling = bool(waiting)
        if not waiting:
            return
        self._tells += 1
        for queue in waiting:
            for place, ticket in enumerate(queue, 1):
                if place > TOLD_OFTEN and self._tells % 10:
                    break
                ticket._move_to(place)
        self._clock.call_after(TELL_US, self._tell_places)

    def _hold(self, lane: _Lane, place: int) -> RequestHeld:
        """Return why the gate admits no request of a model, and until when if known."""
        now = self._clock.uptime()
        label = f"{self._name}/{lane.model}" if lane.model else self._name or "the provider"
        if now < lane.paused_until:
            return RequestHeld(f"rate limit of {label}", self._wall_time(lane.paused_until), place)
        opening = lane.find_opening(now)
        if opening is None or opening > now:
            assert lane.open is not None
            return RequestHeld(
                f"after a rate limit, {count_of(lane.open, 'request')} at a time to {label}", place=place
            )
        if self._taken < self.concurrency and now < self._next_start:
            reason = f"the rate set for {self._name or 'the provider'} is reached"
            return RequestHeld(reason, self._wall_time(self._next_start), place)
        return RequestHeld(
            f"{count_of(self._taken, 'request')} {'is' if self._taken == 1 else 'are'} under way", place=place
        )

    def _wall_time(self, at: int) -> int:
        """Convert a time of the gate for people."""
        return self._clock.now() + at - self._clock.uptime()

    def _admit(self) -> None:
        """Admit all that may enter now, and set the timer for the next."""
        now = self._clock.uptime()
        while self._taken < self.concurrency:
            openings = [(lane.find_opening(now), lane) for lane in self._lanes.values() if lane.queue]
            ready = [lane.queue[0] for opening, lane in openings if opening is not None and opening <= now]
            if not ready:
                later = [opening for opening, _ in openings if opening is not None]
                if later:
                    self._wake_at(max(min(later), self._next_start))
                return
            if now < self._next_start:
                self._wake_at(self._next_start)
                return
            ticket = min(ready, key=AdmissionTicket.rank)
            ticket._lane.queue.popleft()
            ticket._lane.under_way.add(ticket)
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

    def _free(self, ticket: AdmissionTicket) -> None:
        self._taken -= 1
        lane = ticket._lane
        lane.under_way.discard(ticket)
        if not lane.under_way and not lane.queue and lane.open is None:
            del self._lanes[lane.model]
        self._admit()

    def _note_success(self, lane: _Lane, entered_at: int) -> None:
        if lane.open is not None and entered_at > lane.lowered_at:
            lane.open = lane.open + 1 if lane.open + 1 < self.concurrency else None

    def _note_refusal(self, lane: _Lane, entered_at: int, retry_after: float | None) -> None:
        now = self._clock.uptime()
        if retry_after is None:
            if entered_at > lane.lowered_at:
                lane.lowered_at = now
                lane.open = max(1, min(lane.open or self.concurrency, self.concurrency) // 2)
            return
        lane.lowered_at = now
        lane.open = 1
        until = now + round(min(retry_after, MAX_PAUSE_S) * 1_000_000)
        was_open = lane.paused_until <= now
        lane.paused_until = max(lane.paused_until, until)
        if was_open:
            for ticket in lane.queue:
                ticket._tell()


class AdmissionTicket:
    """One request at the gate: it waits, is admitted, and leaves."""

    __slots__ = (
        "_answered_at",
        "_arrival",
        "_changed",
        "_entered_at",
        "_gate",
        "_lane",
        "_left",
        "_place",
        "by_person",
    )

    def __init__(self, gate: AdmissionGate, lane: _Lane, place: int, arrival: int, *, by_person: bool) -> None:
        self._gate = gate
        self._lane = lane
        self._place = place
        self._arrival = arrival
        self.by_person = by_person
        self._changed: asyncio.Event | None = None
        self._entered_at: int | None = None
        self._answered_at: int | None = None
        self._left = False

    @property
    def is_admitted(self) -> bool:
        return self._entered_at is not None

    @property
    def counts_until(self) -> int:
        """Return until when it counts for the ramp of its model: while its answer may still come."""
        if self._entered_at is None:
            return 0
        return self._entered_at + SILENT_US if self._answered_at is None else _FOR_EVER

    def rank(self) -> tuple[bool, int]:
        """Return the place of a ticket among those that are first in their lanes."""
        return not self.by_person, self._arrival

    def hold(self) -> RequestHeld:
        return self._gate._hold(self._lane, self._place)

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
        self._gate._note_success(self._lane, self._entered_at)
        self._gate._admit()

    def note_refusal(self, retry_after: float | None) -> None:
        """Note that the provider is overloaded; seconds to wait, or None if it named none."""
        assert self._entered_at is not None
        self._answered_at = self._gate._clock.uptime()
        self._gate._note_refusal(self._lane, self._entered_at, retry_after)

    def leave(self) -> None:
        """Free the place, or the place in the queue. May be called twice."""
        if self._left:
            return
        self._left = True
        if self._entered_at is None:
            self._lane.queue.remove(self)
            return
        now = self._gate._clock.uptime()
        free_at = (now if self._answered_at is None else self._answered_at) + APART_US
        if now >= free_at:
            self._gate._free(self)
        else:
            self._gate._clock.call_after(free_at - now, partial(self._gate._free, self))

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
