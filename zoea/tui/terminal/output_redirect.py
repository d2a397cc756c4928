"""Redirects file descriptors 1 and 2 to the log while the screen has the terminal.

Textual captures what Python prints, but not what a C library or a child process writes, which would damage the screen.
"""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from zoea.process.forced_end import detach_terminal
from zoea.settings.private_file import open_private

# As Textual's driver at its end: restore paste, wrapping, sizes, mouse, keys, main screen and cursor.
_AS_BEFORE = (
    b"\x1b[?2004l\x1b[?7h\x1b[?2048l\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l"
    b"\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l\x1b[23;2t"
)
_NAMES = {1: ("stdout", "__stdout__"), 2: ("stderr", "__stderr__")}


@contextmanager
def redirect_output(log: Path) -> Iterator[None]:
    """Redirect descriptors 1 and 2 to `log`; Python's streams keep the terminal."""
    before = {name: getattr(sys, name) for names in _NAMES.values() for name in names}
    for stream in before.values():
        stream.flush()
    # Drawing, terminal size and the person's editor use the descriptors of these streams.
    screen = {
        number: os.fdopen(os.dup(number), "w", encoding="utf-8", errors="replace", buffering=1) for number in _NAMES
    }
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
            with suppress(OSError):  # the terminal is gone
                stream.close()


def restore_terminal(modes: list[Any] | None) -> None:
    """Stop drawing and restore the terminal, where it still exists.

    Textual's own end would block when the terminal goes away in between.

    Args:
        modes: The terminal's modes before the screen, as termios has them.
    """
    assert sys.__stdout__ is not None
    with suppress(OSError, termios.error):  # the terminal is gone or blocked
        # A new descriptor, because O_NONBLOCK would affect every other user of the old one.
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


def _opened(log: Path) -> int:
    try:
        return open_private(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    except OSError:
        # The directory is missing or not writable; opening the swarm reports that.
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
