"""While a screen is up the terminal is the screen's alone: what else is written to fd 1 and 2 goes to the log.

Textual keeps what Python prints to itself, but not what a library in C or a child
process writes, which would stand in the middle of the picture until it is drawn anew.
"""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from zoea.process.hangup import detach_terminal

# As Textual's driver at its end: paste, wrapping, sizes, mouse and keys as before; the main screen; the cursor.
_AS_BEFORE = (
    b"\x1b[?2004l\x1b[?7h\x1b[?2048l\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l"
    b"\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l\x1b[23;2t"
)
_NAMES = {1: ("stdout", "__stdout__"), 2: ("stderr", "__stderr__")}


@contextmanager
def screen_alone(log: Path) -> Iterator[None]:
    """Python's streams keep the terminal while the block runs; the descriptors under them write to `log`."""
    before = {name: getattr(sys, name) for names in _NAMES.values() for name in names}
    for stream in before.values():
        stream.flush()
    # Whatever belongs to the screen asks these for their descriptor: what it draws, its size, the person's editor.
    screen = {number: _beside(number) for number in _NAMES}
    elsewhere = _opened(log)
    for number, names in _NAMES.items():
        os.dup2(elsewhere, number)
        for name in names:
            setattr(sys, name, screen[number])
    os.close(elsewhere)
    try:
        yield
    finally:
        for name, stream in before.items():
            setattr(sys, name, stream)
        for number, stream in screen.items():
            os.dup2(stream.fileno(), number)
            with suppress(OSError):  # a terminal that is gone takes the last lines no more
                stream.close()


def hand_back(modes: list[Any] | None) -> None:
    """Nothing is drawn from now on; the terminal, where there still is one, is as it was before the screen.

    Drawing until the end would do the same, but stands still with a terminal that goes away meanwhile.

    Args:
        modes: Of the terminal before the screen, as termios has them.
    """
    assert sys.__stdout__ is not None
    with suppress(OSError, termios.error):  # it is gone, or takes nothing now
        # Opened anew: whoever else has this terminal goes on waiting for it.
        terminal = os.open(
            os.ttyname(sys.__stdout__.fileno()), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        )
        try:
            detach_terminal()
            if modes is not None:
                termios.tcsetattr(terminal, termios.TCSANOW, modes)
            os.write(terminal, _AS_BEFORE)
        finally:
            os.close(terminal)
    detach_terminal()


def _beside(number: int) -> IO[str]:
    """What is written to it goes where the descriptor leads now."""
    return os.fdopen(os.dup(number), "w", encoding="utf-8", errors="replace", buffering=1)


def _opened(log: Path) -> int:
    try:
        return os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        # A directory that is not there yet, or may not be written: opening the swarm says so in its own words.
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
