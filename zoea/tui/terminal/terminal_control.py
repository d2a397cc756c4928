"""Escape sequences for the terminal, and cursors that blink only shortly after input.

Control characters of models are escaped.

OSC 2 sets the title; OSC 9 and OSC 777 raise a notification in terminals that know one of them. The earlier title is
pushed at the start and popped at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from textual.widget import Widget
from textual.widgets import Input, TextArea

from zoea.model.values import MysisView
from zoea.text.control_characters import one_line
from zoea.tui.swarm_list import attention

PUSH_TITLE = "\x1b[22;2t"
POP_TITLE = "\x1b[23;2t"
LONGEST = 120


def build_title_sequence(text: str) -> str:
    return f"\x1b]2;{sanitize_line(text)}\x07"


def build_notification(title: str, body: str) -> str:
    """Return OSC 9 with one text, and OSC 777 with two parts without semicolons."""
    first, second = sanitize_line(title).replace(";", ","), sanitize_line(body).replace(";", ",")
    return f"\x1b]9;{first}: {second}\x07\x1b]777;notify;{first};{second}\x07"


def sanitize_line(text: str) -> str:
    """Return one short line with control characters as escapes."""
    return one_line(text)[:LONGEST]


def build_title(workspace: str, needing: Sequence[MysisView], working: int | None = None) -> str:
    """Return the terminal title: who needs the person, else how many work.

    Args:
        working: Number of working myses; None where there are no myses.
    """
    where = f"Zoea {workspace}".strip()
    if not needing:
        return where if working is None else f"{where} · {working} working"
    first = f"{needing[0].name}: {attention.attention_reason(needing[0])}"
    return f"({len(needing)}) {first} · {where}"


class TerminalControl:
    """Sends each title and notification once.

    Args:
        write: Writes to the terminal without change.
        bell: Rings the bell.
    """

    def __init__(self, write: Callable[[str], None], bell: Callable[[], None]) -> None:
        self.write = write
        self.bell = bell
        self._title = ""
        self._needing: frozenset[int] | None = None

    def open(self) -> None:
        self.write(PUSH_TITLE)

    def close(self) -> None:
        self.write(POP_TITLE)

    def show_title(self, title: str) -> None:
        if title != self._title:
            self._title = title
            self.write(build_title_sequence(title))

    def take(self, needing: Sequence[MysisView], *, focused: bool) -> None:
        """Notify of myses that begin to need the person, unless the terminal has the focus.

        Those of the first call are on the screen already.
        """
        ids = frozenset(view.id for view in needing)
        before, self._needing = self._needing, ids
        fresh = [view for view in needing if before is not None and view.id not in before]
        if not fresh or focused:
            return
        others = f" and {len(fresh) - 1} more" if len(fresh) > 1 else ""
        self.bell()
        self.write(build_notification("Zoea", f"{fresh[0].name}{others}: {attention.attention_reason(fresh[0])}"))


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
