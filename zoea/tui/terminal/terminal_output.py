"""Output to a terminal in a thread. A terminal that does not read cannot block the event loop."""

from __future__ import annotations

import fcntl
import os
import threading
from collections import deque
from collections.abc import Callable

LIMIT = 16 << 20
"""Bytes that may wait for a terminal that does not read: about five minutes of a busy cockpit."""
PROBE_S = 0.25
"""Seconds between two looks at whether the terminal still exists, while nothing is written."""
_RETRY_S = 0.02


class TerminalOutput:
    """Writes texts to a terminal in order, in a daemon thread.

    Args:
        descriptor: The terminal; a copy of it is used.
        lost: Called once, in any thread, when the terminal is gone, or more than `LIMIT` bytes wait.
    """

    def __init__(self, descriptor: int, lost: Callable[[], object]) -> None:
        self._descriptor = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
        self._is_terminal = os.isatty(self._descriptor)
        self._lost = lost
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._is_open = True
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True, name="terminal-output")
        self._thread.start()

    def write(self, text: str) -> None:
        """Add a text to what is written. Never blocks; drops the text after `stop` and after the loss."""
        data = text.encode("utf-8", "replace")
        with self._changed:
            if not self._is_open:
                return
            self._waiting.append(data)
            self._size += len(data)
            is_full = self._size > LIMIT
            self._changed.notify()
        if is_full:
            self._lose()

    def stop(self, within_s: float) -> None:
        """Write what waits, for at most `within_s`, then drop the rest."""
        with self._changed:
            self._is_open = False
            self._changed.notify()
        self._thread.join(within_s)
        self.discard()

    def discard(self, within_s: float = 0.0) -> None:
        """Drop what waits, and accept nothing more. Wait up to `within_s` for the end of a write."""
        with self._changed:
            self._is_open = False
            self._waiting.clear()
            self._size = 0
            self._changed.notify()
        if within_s:
            self._thread.join(within_s)

    def _run(self) -> None:
        try:
            while (data := self._next()) is not None:
                if data:
                    self._write(data)
                elif self._is_terminal and not os.isatty(self._descriptor):
                    self._lose()
        except OSError:  # EIO: the terminal was closed
            self._lose()
        finally:
            os.close(self._descriptor)

    def _next(self) -> bytes | None:
        """Wait for data; empty when there was none for `PROBE_S`, None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or not self._is_open, PROBE_S)
            data = b"".join(self._waiting)
            self._waiting.clear()
            return data if data or self._is_open else None

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                written = os.write(self._descriptor, left)
            except BlockingIOError:  # another program made the terminal non-blocking
                with self._changed:
                    self._changed.wait(_RETRY_S)
                continue
            left = left[written:]
            with self._changed:
                self._size -= written

    def _lose(self) -> None:
        with self._changed:
            was_open = self._is_open
        self.discard()
        if was_open:
            self._lost()
