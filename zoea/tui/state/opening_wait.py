"""Holds actions that were given before the swarm was open, and the keys after them."""

from __future__ import annotations

from collections.abc import Callable


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
