"""What the terminal around the cockpit is told: its title, a bell, a notification. Never what a model wrote, raw.

OSC 2 sets the title, OSC 9 and OSC 777 raise a notification where the terminal
knows one of them; the title of before is pushed at the start and popped at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zoea.model.values import MysisView
from zoea.text.control_characters import one_line
from zoea.tui.swarm_list import attention

PUSH_TITLE = "\x1b[22;2t"
POP_TITLE = "\x1b[23;2t"
LONGEST = 120


def title_sequence(text: str) -> str:
    return f"\x1b]2;{harmless(text)}\x07"


def notification_sequences(title: str, body: str) -> str:
    """OSC 9 has one text, OSC 777 two parts between semicolons, which therefore may hold none."""
    first, second = harmless(title).replace(";", ","), harmless(body).replace(";", ",")
    return f"\x1b]9;{first}: {second}\x07\x1b]777;notify;{first};{second}\x07"


def harmless(text: str) -> str:
    """One short line without anything a terminal would obey."""
    return one_line(text)[:LONGEST]


def title_of(workspace: str, needing: Sequence[MysisView], running: int | None = None) -> str:
    """Who needs the commander, the most urgent first, else how many run; None where there is nobody."""
    where = f"Zoea {workspace}".strip()
    if not needing:
        return where if running is None else f"{where} · {running} running"
    first = f"{needing[0].name}: {attention.attention_reason(needing[0])}"
    return f"({len(needing)}) {first} · {where}"


class Terminal:
    """Tells each thing once.

    Args:
        write: Writes to the terminal as it is.
        bell: Rings.
    """

    def __init__(self, write: Callable[[str], None], bell: Callable[[], None]) -> None:
        self._write = write
        self._bell = bell
        self._title = ""
        self._needing: frozenset[int] | None = None

    def open(self) -> None:
        self._write(PUSH_TITLE)

    def close(self) -> None:
        self._write(POP_TITLE)

    def show_title(self, title: str) -> None:
        if title != self._title:
            self._title = title
            self._write(title_sequence(title))

    def take(self, needing: Sequence[MysisView], *, focused: bool) -> None:
        """These need the commander now: whoever does so anew is told, once, where nobody looks.

        What needed someone when the cockpit opened is on the screen already.
        """
        ids = frozenset(view.id for view in needing)
        before, self._needing = self._needing, ids
        fresh = [view for view in needing if before is not None and view.id not in before]
        if not fresh or focused:
            return
        others = f" and {len(fresh) - 1} more" if len(fresh) > 1 else ""
        self._bell()
        self._write(notification_sequences("Zoea", f"{fresh[0].name}{others}: {attention.attention_reason(fresh[0])}"))
