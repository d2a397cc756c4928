"""A terminal driver that survives a terminal that closes or stops reading.

Textual's own driver writes through a queue of 30 entries: once the terminal stops reading, or its writer thread
ends with an error, the event loop blocks. Its input thread loops without a pause at the end of the input, and
an error of reading, or one byte that is no UTF-8, ends the app as a defect. It reads on however many keys wait.
Keys that were typed before it took the terminal keep no enter.
"""

from __future__ import annotations

import fcntl
import os
import termios
import threading
from array import array
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import chain, count
from typing import Any

from textual.drivers.linux_driver import LinuxDriver, ParseError, XTermParser  # type: ignore[attr-defined]  # no public names

from zoea.text.screen_size import clamp_cells
from zoea.tui.terminal.paced_driver import PacedDriver
from zoea.tui.terminal.terminal_input import TerminalInput

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
        """Write a text to the terminal. Never blocks; drops the text after `stop` and after the loss."""
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


CLOSE_S = 0.5
"""Seconds that the terminal has to read the last output."""
LAST_WRITE_S = 0.2


class TerminalDriver(PacedDriver, LinuxDriver):
    """Reports the loss of the terminal, because make, shells and nohup can hold SIGHUP back."""

    _output: TerminalOutput | None = None
    _is_lost = False
    _report_loss: Callable[[], object] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Until the first event of a size, the app would ask rich, which knows no limit.
        self._size = self._size or self._get_terminal_size()

    def when_lost(self, report: Callable[[], object]) -> None:
        """Call `report`, in any thread, when the terminal is lost. If it is lost already, call it at once."""
        self._report_loss = report
        if self._is_lost:
            report()

    def start_application_mode(self) -> None:
        """Start to draw and to read keys, unless the terminal was lost before."""
        if self._is_lost:
            return
        assert self._file is not None
        self._output = TerminalOutput(self._file.fileno(), self._lose)
        super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual's own

    def _get_terminal_size(self) -> tuple[int, int]:
        """Ask the terminal itself for its size. LINES and COLUMNS count only where it does not know.

        They are the size of another moment: readline sets them for all programs that are started after it.
        Whoever says it, the size is limited: a screen of 65,535 columns and rows would take gigabytes.
        """
        assert self._file is not None
        try:
            width, height = os.get_terminal_size(self._file.fileno())
        except OSError:
            width, height = 0, 0
        if not (width and height):
            width, height = super()._get_terminal_size()
        return clamp_cells(width), clamp_cells(height)

    def write(self, data: str) -> None:
        """Write to the terminal without blocking; nothing after its loss."""
        if self._output is not None:
            self._output.write(data)

    def close(self) -> None:
        """Write what waits, as far as the terminal reads it."""
        if self._output is not None:
            self._output.stop(CLOSE_S)
        super().close()

    def abandon(self) -> None:
        """Stop to write and to read for good, after a last write if possible."""
        self._is_lost = True
        self.exit_event.set()
        if self._output is not None:
            self._output.discard(LAST_WRITE_S)

    def run_input_thread(self) -> None:
        """Read keys until the end; an error means that the terminal is lost."""
        try:
            self._read_early_keys()
            parser = TerminalInput(XTermParser(self._debug))
            decode = getincrementaldecoder("utf-8")("replace").decode
            self.read_input(self.fileno, parser, lambda data: parser.feed(decode(data)))
        except OSError:
            if not self._is_lost:
                self._lose()

    def _read_early_keys(self) -> None:
        """Read keys typed before this driver took the terminal, with enter as such.

        The terminal turned each enter into a line feed.
        """
        if not os.isatty(self.fileno):
            return
        waiting = array("i", [0])
        fcntl.ioctl(self.fileno, termios.FIONREAD, waiting)
        if not waiting[0]:
            return
        typed = os.read(self.fileno, waiting[0]).decode("utf-8", "replace").replace("\n", "\r")
        parser = TerminalInput(XTermParser(self._debug), now=count().__next__)  # typed in a time that is not known
        with suppress(EOFError, ParseError):
            for line in typed.splitlines(keepends=True):
                self.process_messages(chain(parser.feed(line), parser.tick()))
            self.process_messages(parser.close())

    def _lose(self) -> None:
        self._is_lost = True
        self.exit_event.set()
        if self._report_loss is not None:
            self._report_loss()
