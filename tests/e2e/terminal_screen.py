"""Runs a command on a pseudo-terminal and emulates its screen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.e2e.text_screen import TextScreen
from tests.e2e.zoea_process import PATIENCE_S, environment
from tests.fakes.fork_server import ForkedProgram

KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "ctrl+o": "\x0f",
    "tab": "\t",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "f5": "\x1b[15~",
}
_ESCAPE_S = 0.15
"""Seconds after an escape character until the program takes it for the escape key."""


class TerminalScreen:
    """A command in a terminal of a given size. Waiting methods read and draw its output."""

    def __init__(
        self, *arguments: str, size: tuple[int, int] = (120, 40), environ: Mapping[str, str], module: str = "zoea"
    ) -> None:
        columns, lines = size
        self._screen = TextScreen(columns, lines)
        self._keyboard, terminal = pty.openpty()
        self._terminal = os.ttyname(terminal)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process = ForkedProgram(
            [sys.executable, "-m", module, *arguments],
            env={**environment(), "TERM": "xterm-256color", "LANG": "C.UTF-8", **environ},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)

    @property
    def text(self) -> str:
        """The text of the screen."""
        return self._screen.text

    def press(self, *keys: str, shows: str = "") -> None:
        """Press keys or type a text, and wait until the screen `shows` these words.

        What follows an enter at once would be pasted.
        """
        for key in keys:
            os.write(self._keyboard, KEYS.get(key, key).encode())
            if key in ("escape", "enter"):
                self._read_while(self._has_unread_keys)
                self._read_for(_ESCAPE_S)
        if shows:
            self.until(shows)

    def write(self, data: bytes) -> None:
        """Type bytes, however many; the output is read and drawn in between."""
        keyboard = threading.Thread(target=_write_all, args=(self._keyboard, data), daemon=True)
        keyboard.start()
        deadline = time.monotonic() + PATIENCE_S
        while keyboard.is_alive():
            assert time.monotonic() < deadline, f"not all of {len(data):,} bytes were read:\n{self.text}"
            self._read(0.05)

    def until(self, holds: Callable[[str], Any] | str, *more: str) -> None:
        """Wait until the words all stand on the screen, or `holds` is true of it."""
        words = (holds, *more) if isinstance(holds, str) else ()
        is_seen = (lambda text: all(word in text for word in words)) if isinstance(holds, str) else holds
        deadline = time.monotonic() + PATIENCE_S
        while not is_seen(self.text):
            wanted = ", ".join(map(repr, words)) or "what was waited for"
            assert time.monotonic() < deadline, f"{wanted} never stood there:\n{self.text}"
            assert self._read(0.2), f"it ended before {wanted} stood there:\n{self.text}"

    def end(self) -> int:
        """Wait for the end of the command; its exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it did not end:\n{self.text}"
            self._read(0.2)
        while select.select([self._keyboard], [], [], 0.2)[0] and self._read(0):
            pass  # its last words, which it may have written just before its end
        os.close(self._keyboard)
        return self.process.returncode

    def close(self) -> None:
        """End it if it still runs: for a test that failed."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            with contextlib.suppress(OSError):
                os.close(self._keyboard)

    def _has_unread_keys(self) -> bool:
        """Return whether the program has typed keys left to read. A busy one reads them with the next key."""
        try:
            terminal = os.open(self._terminal, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:
            return False  # the program has ended
        try:
            return fcntl.ioctl(terminal, termios.FIONREAD, bytes(4)) != bytes(4)
        finally:
            os.close(terminal)

    def _read_while(self, waits: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self._read(0.01) and waits() and time.monotonic() < deadline:
            pass  # what was typed comes to the program a moment later

    def _read_for(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            self._read(left)

    def _read(self, within_s: float) -> bool:
        """Draw what comes within a time; False where nothing will come any more."""
        if select.select([self._keyboard], [], [], within_s)[0]:
            try:
                self._screen.feed(os.read(self._keyboard, 65_536))
            except OSError:
                return False
        return True


def paste(text: str) -> bytes:
    """Return a text as a terminal sends it when a person pastes it: between marks, each line end as enter."""
    return f"\x1b[200~{text.replace(chr(10), chr(13))}\x1b[201~".encode()


def take_steps(glass: TerminalScreen, *steps: Callable[[TerminalScreen], None]) -> None:
    """Take steps in one cockpit, each from its list without a prompt. A failure names its step."""
    for step in steps:
        try:
            step(glass)
            glass.until(lambda text: "enter send" not in text)
        except Exception as error:
            error.add_note(f"in the step {step.__name__}")
            raise


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data[:65_536]) :]
