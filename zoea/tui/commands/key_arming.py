"""Keys that must be pressed twice within two seconds; any other key in between cancels."""

from __future__ import annotations

from collections.abc import Callable

WITHIN_S = 2.0


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
        self._what, self._note, self._until = what, note, self._clock() + WITHIN_S
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
