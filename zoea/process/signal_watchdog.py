"""Signals for the event loop, and a thread for those it does not answer.

Python passes a signal to the event loop by writing its number to a socket. Here that socket belongs to a
thread, which passes the number on. So the thread learns of a signal also while the main thread is blocked:
at a lock, in a loop, or in a C function that releases the interpreter's lock.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable
from signal import Signals

ANSWER_S = 5.0
"""Seconds that the event loop has to answer a signal."""

Unanswered = Callable[[Signals], object]


class SignalWatchdog:
    """Calls handlers of signals in the running event loop. Made in the main thread.

    Args:
        unanswered: Called once, in a thread, with a signal that the loop did not answer within `ANSWER_S`.
    """

    def __init__(self, unanswered: Unanswered) -> None:
        self._unanswered = unanswered
        self._loop = asyncio.get_running_loop()
        self._handled: set[Signals] = set()
        self._answer_by: dict[Signals, float] = {}
        self._mutex = threading.Lock()
        self._writer: socket.socket | None = None
        self._passes_to = -1
        self._thread: threading.Thread | None = None

    def handle(self, numbers: Iterable[Signals], handler: Callable[[Signals], object]) -> None:
        """Call `handler` in the event loop on each of these signals."""
        for number in numbers:
            self._loop.add_signal_handler(number, self._answer, number, handler)
            self._handled.add(number)
        if self._writer is None:
            reader, self._writer = socket.socketpair()
            self._writer.setblocking(False)
            self._thread = threading.Thread(target=self._watch, args=(reader,), daemon=True, name="signal-watchdog")
            self._thread.start()
        # Adding a handler made the loop's own socket the receiver.
        self._passes_to = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)

    def raise_signal(self, number: Signals) -> None:
        """Handle a signal that the kernel did not send. May be called in any thread."""
        if self._writer is not None:
            self._writer.send(bytes([number]))

    def close(self) -> None:
        """Stop watching. The handlers stay until the loop is closed."""
        if self._writer is None or self._thread is None:
            return
        signal.set_wakeup_fd(self._passes_to)
        self._writer.close()
        self._writer = None
        self._thread.join(ANSWER_S)

    def _answer(self, number: Signals, handler: Callable[[Signals], object]) -> None:
        with self._mutex:
            self._answer_by.pop(number, None)
        handler(number)

    def _watch(self, reader: socket.socket) -> None:
        with reader:
            while True:
                try:
                    reader.settimeout(self._seconds_left())
                    numbers = reader.recv(64)
                except TimeoutError:
                    if (number := self._pop_overdue()) is not None:
                        self._unanswered(number)
                    continue
                if not numbers:
                    return
                with self._mutex:
                    for number in self._handled & set(map(Signals, numbers)):
                        self._answer_by.setdefault(number, time.monotonic() + ANSWER_S)
                self._pass_on(numbers)

    def _pass_on(self, numbers: bytes) -> None:
        try:
            os.write(self._passes_to, numbers)
        except OSError:
            # The loop is closed, or it has not read for so long that its socket is full: the deadline decides.
            return

    def _seconds_left(self) -> float | None:
        with self._mutex:
            earliest = min(self._answer_by.values(), default=math.inf)
        return None if earliest == math.inf else max(0.001, earliest - time.monotonic())

    def _pop_overdue(self) -> Signals | None:
        with self._mutex:
            for number, by in self._answer_by.items():
                if by <= time.monotonic():
                    del self._answer_by[number]
                    return number
        return None
