"""A command on a pseudo-terminal, watched like a person would: what it writes, and when.

Times are of the monotonic clock, which all processes of a machine share: a text that
carries the time of its making says, when it is read here, how long it took to the screen.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence

SIZE = (120, 40)
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>])")
_KEPT = 200_000


def plain(text: str) -> str:
    """What was written without colours and cursor movements."""
    return _SEQUENCE.sub("", text)


class Terminal:
    """Runs the command until `close`. Its stdout is a pipe of its own, screen and keyboard are the terminal's.

    Args:
        heard: Told of each piece that was written, as text, and when (seconds).
        screen_is_stdout: Give it the terminal as stdout too, as a person's shell does.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        heard: Callable[[str, float], None] | None = None,
        size: tuple[int, int] = SIZE,
        screen_is_stdout: bool = False,
    ) -> None:
        self._keyboard, screen = pty.openpty()
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            command,
            stdin=screen,
            stderr=screen,
            stdout=screen if screen_is_stdout else subprocess.PIPE,
            env={**environment, "TERM": "xterm-256color", "COLUMNS": str(size[0]), "LINES": str(size[1])},
            start_new_session=True,
        )
        os.close(screen)
        self.bytes = 0
        self._written = ""
        self._heard = heard
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._keyboard, 1 << 16)
            except OSError:
                piece = b""  # Linux says so when the last holder of the other side is gone
            at = time.monotonic()
            text = piece.decode("utf-8", "replace")
            with self._changed:
                self.bytes += len(piece)
                self._written = (self._written + text)[-_KEPT:]
                self._changed.notify_all()
            if not piece:
                return
            if self._heard is not None:
                self._heard(text, at)

    def press(self, keys: str) -> float:
        """Type, and forget what was written before; when that was."""
        with self._changed:
            self._written = ""
        at = time.monotonic()
        os.write(self._keyboard, keys.encode())
        return at

    def wait_for(self, pattern: str, *, within: float = 60.0) -> float:
        """When (seconds) this was found in what was written since the last key. Raises TimeoutError."""
        wanted = re.compile(pattern)
        deadline = time.monotonic() + within
        with self._changed:
            while not wanted.search(plain(self._written)):
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left) or self.process.poll() is not None:
                    raise TimeoutError(f"{pattern!r} was never shown:\n{plain(self._written)[-2000:]}")
            return time.monotonic()

    def result(self, *, within: float = 600.0) -> str:
        """What it wrote to its stdout, once it has ended. Raises RuntimeError where it failed."""
        assert self.process.stdout is not None
        text = self.process.stdout.read().decode()
        if self.process.wait(timeout=within):
            raise RuntimeError(f"it ended with {self.process.returncode}:\n{plain(self._written)[-3000:]}")
        return text

    def close(self) -> None:
        """End it, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(timeout=5)
        os.close(self._keyboard)
