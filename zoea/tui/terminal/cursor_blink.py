"""Cursors that rest: one that blinks costs 2 to 3 % of a core for ever, so it blinks only while somebody writes."""

from __future__ import annotations

import time
from collections.abc import Callable

from textual.widget import Widget
from textual.widgets import Input, TextArea

IDLE_S = 5.0


class Cursors:
    """Told of every key and every second; the widget with the focus is all that could blink.

    Args:
        focused: The widget that has the focus now.
        is_calm: True where nothing may ever blink.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        focused: Callable[[], Widget | None],
        is_calm: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._focused = focused
        self._is_calm = is_calm
        self._clock = clock
        self._woken = clock()

    def wake(self) -> None:
        """Somebody did something."""
        self._woken = self._clock()
        self.settle()

    def settle(self) -> None:
        """Let the cursor blink, or rest visibly, as it should now."""
        widget = self._focused()
        if isinstance(widget, Input | TextArea):
            should = not self._is_calm() and self._clock() - self._woken < IDLE_S
            if widget.cursor_blink != should:
                widget.cursor_blink = should
