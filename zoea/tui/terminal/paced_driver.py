"""The part of a driver that reads keys, never faster than the app handles them."""

from __future__ import annotations

import asyncio
import os
import selectors
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from textual.driver import Driver
from textual.message import Message

from zoea.tui.terminal.terminal_input import TerminalInput

READ_BYTES = 4096
MOST_WAITING = 2_000
"""Keys that may wait for the app. While more do, nothing is read, so that memory stays bounded."""
_LOOK_S = 0.02


class PacedDriver(Driver):
    """Counts the messages that wait for the app, and waits while there are too many."""

    exit_event: threading.Event
    _count_waiting: Callable[[], int] = staticmethod(lambda: 0)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sent: deque[Future[bool]] = deque()
        """Messages on their way to the app; in the order in which it gets them."""

    def count_waiting(self, waiting: Callable[[], int]) -> None:
        """Count waiting keys with `waiting` too, besides those on their way to the app. The input thread calls it."""
        self._count_waiting = waiting

    def send_message(self, message: Message) -> None:
        """Send a message to the app, from any thread."""
        self._sent.append(asyncio.run_coroutine_threadsafe(self._app._post_message(message), loop=self._loop))

    def read_input(self, descriptor: int, parser: TerminalInput, parse: Callable[[bytes], Iterable[Message]]) -> None:
        """Read until the end of the input or of the app, in the input thread. Raises OSError.

        Args:
            parser: Completes what `parse` left open, when nothing comes for a while.
            parse: Yields the messages of the next bytes.
        """
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if not selector.select(parser.quiet_s):
                    self.process_messages(parser.tick())
                elif data := os.read(descriptor, READ_BYTES):
                    self.process_messages(parse(data))
                else:
                    return

    def process_messages(self, messages: Iterable[Message]) -> None:
        """Send messages to the app, each when there is room for it."""
        for message in messages:
            self.process_message(message)
            self._wait_for_app()
            if self.exit_event.is_set():
                return

    def _wait_for_app(self) -> None:
        while not self.exit_event.is_set():
            while self._sent and self._sent[0].done():
                self._sent.popleft()
            if len(self._sent) + self._count_waiting() <= MOST_WAITING:
                return
            self.exit_event.wait(_LOOK_S)
