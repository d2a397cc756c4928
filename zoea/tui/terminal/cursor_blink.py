"""Cursors that blink only shortly after input. Blinking costs 2 to 3 % of a core."""

from __future__ import annotations

import time
from collections.abc import Callable

from textual.widget import Widget
from textual.widgets import Input, TextArea

IDLE_S = 5.0


class CursorBlink:
    """Starts and stops blinking of the focused input.

    Args:
        focused: Returns the widget that has the focus.
        is_calm: Returns whether nothing may blink.
        clock: Returns seconds that never go back.
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
        """Note input of the person."""
        self._woken = self._clock()
        self.settle()

    def settle(self) -> None:
        """Turn blinking of the focused input on or off."""
        widget = self._focused()
        if isinstance(widget, Input | TextArea):
            should = not self._is_calm() and self._clock() - self._woken < IDLE_S
            if widget.cursor_blink != should:
                widget.cursor_blink = should
