"""Requests that wait until others settle what they reserved of the swarm's budget.

A budget is exceeded by what was spent. What others reserved may come back, so a request that fits only without it
waits. Where nothing is reserved any more, the smallest of those that wait goes first: if it does not fit, none does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from msgspec import Struct

from zoea.model.ports import Clock, Timer

WOKEN_AT_ONCE = 4
CHECK_US = 5_000_000
"""A new day gives room without a settled request, so that waiting requests also try by themselves."""


class _WaitingRequest(Struct):
    tokens: int
    proceed: Callable[[], None]
    is_woken: bool = False


class BudgetQueue:
    """Waiting requests in order of arrival, by a key such as their mysis."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[Hashable, _WaitingRequest] = {}
        self._timer: Timer | None = None

    def wait(self, key: Hashable, tokens: int, proceed: Callable[[], None]) -> None:
        """Call `proceed` once there may be room. A request that was woken and waits again keeps its place."""
        self._waiting[key] = _WaitingRequest(tokens, proceed)
        if self._timer is None:
            self._timer = self._clock.call_after(CHECK_US, self._check)

    def leave(self, key: Hashable) -> None:
        """Drop a request: it was reserved, or its turn ended."""
        self._waiting.pop(key, None)

    def place(self, key: Hashable) -> int:
        """Return the place in the queue, 1 for the next. 0 if it does not wait."""
        return next((place for place, one in enumerate(self._waiting, 1) if one == key), 0)

    def smallest_other(self, key: Hashable) -> int | None:
        """Return the tokens of the smallest request that waits beside this one."""
        return min((one.tokens for other, one in self._waiting.items() if other != key), default=None)

    def wake_some(self) -> None:
        """Let the oldest and the smallest try again, because something was settled."""
        asleep = [one for one in self._waiting.values() if not one.is_woken]
        for one in asleep[:WOKEN_AT_ONCE]:
            self._wake(one)
        self.wake_smallest()

    def wake_smallest(self) -> None:
        asleep = [one for one in self._waiting.values() if not one.is_woken]
        if asleep:
            self._wake(min(asleep, key=lambda one: one.tokens))

    def _wake(self, one: _WaitingRequest) -> None:
        one.is_woken = True
        one.proceed()

    def _check(self) -> None:
        self._timer = None
        if self._waiting:
            self._timer = self._clock.call_after(CHECK_US, self._check)
            self.wake_some()
