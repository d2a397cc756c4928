"""Textual's driver of a terminal, which survives a terminal that is closed or does not read.

Textual's own driver writes through a queue of 30 entries: once the terminal stops reading, or its writer thread
ends with an error, the event loop blocks. Its input thread loops without a pause at the end of the input, and
an error of reading, or one byte that is no UTF-8, ends the app as a defect. It reads on however many keys wait.
Keys that were typed before it took the terminal keep no enter.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import selectors
import termios
from array import array
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from itertools import chain
from typing import Any

# The parser of the driver itself; its modules are private, and the driver does not say that it passes the names on.
from textual.drivers.linux_driver import LinuxDriver, ParseError, XTermParser  # type: ignore[attr-defined]
from textual.message import Message

from zoea.tui.terminal.terminal_input import TerminalInput
from zoea.tui.terminal.terminal_output import TerminalOutput

CLOSE_S = 0.5
"""Seconds that the terminal has to read the last output."""
LAST_WRITE_S = 0.2
READ_BYTES = 4096
QUIET_S = 0.1
BURST_QUIET_S = 1.0
"""Seconds without input after which an escape stands for itself, and after which a long text is complete."""
MOST_WAITING = 2_000
"""Keys that may wait for the app. While more do, the terminal is not read, so that memory stays bounded."""
_LOOK_S = 0.02


class TerminalDriver(LinuxDriver):
    """Reports the loss of the terminal, because make, shells and nohup can hold SIGHUP back."""

    _output: TerminalOutput | None = None
    _is_lost = False
    _report_loss: Callable[[], object] | None = None
    _count_waiting: Callable[[], int] = staticmethod(lambda: 0)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sent: deque[Future[bool]] = deque()
        """Messages on their way to the app; in the order in which it gets them."""

    def when_lost(self, report: Callable[[], object]) -> None:
        """Call `report`, in any thread, when the terminal is lost, or at once if it was."""
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
        """
        assert self._file is not None
        try:
            width, height = os.get_terminal_size(self._file.fileno())
        except OSError:
            width, height = 0, 0
        if width and height:
            return width, height
        return super()._get_terminal_size()

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

    def count_waiting(self, waiting: Callable[[], int]) -> None:
        """Count the keys that wait with `waiting`, in the input thread, besides those on their way to the app."""
        self._count_waiting = waiting

    def run_input_thread(self) -> None:
        """Read keys until the end; an error means that the terminal is lost."""
        try:
            self._read_early_keys()
            self._read_keys()
        except OSError:
            if not self._is_lost:
                self._lose()

    def send_message(self, message: Message) -> None:
        """Send a message to the app, from any thread."""
        self._sent.append(asyncio.run_coroutine_threadsafe(self._app._post_message(message), loop=self._loop))

    def _read_keys(self) -> None:
        parser = TerminalInput(XTermParser(self._debug))
        decode = getincrementaldecoder("utf-8")("replace").decode
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(BURST_QUIET_S if parser.is_in_burst else QUIET_S):
                    self._process(parser.feed(decode(os.read(self.fileno, READ_BYTES))))
                    self._wait_for_app()
                else:
                    self._process(parser.tick())

    def _wait_for_app(self) -> None:
        """Wait while too many keys wait for the app."""
        while not self.exit_event.is_set():
            while self._sent and self._sent[0].done():
                self._sent.popleft()
            if len(self._sent) + self._count_waiting() <= MOST_WAITING:
                return
            self.exit_event.wait(_LOOK_S)

    def _process(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.process_message(message)

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
        parser = TerminalInput(XTermParser(self._debug))
        with suppress(EOFError, ParseError):
            self._process(chain(parser.feed(typed), parser.close()))

    def _lose(self) -> None:
        self._is_lost = True
        self.exit_event.set()
        if self._report_loss is not None:
            self._report_loss()
