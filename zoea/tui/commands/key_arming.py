"""Keys that must be pressed twice: the first press arms, the second within two seconds fires.

Any other key in between takes the arming away.
"""

from __future__ import annotations

from collections.abc import Callable

WITHIN_S = 2.0


class Arming:
    """At most one key is armed.

    Args:
        clock: Seconds that only grow.
        changed: Told when `note` changed.
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
        """What a second press would do; empty where nothing is armed."""
        return self._note if self._clock() < self._until else ""

    def press(self, what: str, note: str) -> bool:
        """True where this is the second press in time."""
        if what == self._what and self._clock() < self._until:
            self.disarm()
            return True
        self._what, self._note, self._until = what, note, self._clock() + WITHIN_S
        self._changed()
        return False

    def saw(self, key: str) -> None:
        """A key came: any other one than the one that armed takes the arming away."""
        if self._what and key != self._key:
            self.disarm()
        self._key = key

    def disarm(self) -> None:
        self._what, self._note, self._until = "", "", 0.0
        self._changed()
