"""The driver of a cockpit in a browser. `zoea serve` starts one process for each.

`python -m zoea.tui.terminal.browser_driver [WORKSPACE [--read-only]]` speaks Textual's web protocol on
its pipes. It never owns a workspace, and it ends when its input ends, because the server is gone then.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import suppress

# The parsers of the driver itself; their modules are private, and the driver does not say that it passes them on.
from textual.drivers.web_driver import ByteStream, WebDriver, XTermParser  # type: ignore[attr-defined]  # no public names
from textual.events import AppBlur, AppFocus, Resize
from textual.geometry import Size
from textual.message import Message
from textual.messages import ExitApp

from zoea.model.errors import ZoeaError
from zoea.process.gc_tuning import short_gc
from zoea.runtime.run_options import READ_ONLY
from zoea.settings.paths import places
from zoea.tui.start import attach_to_swarm, build_cockpit, build_watcher, show_cockpit
from zoea.tui.terminal.paced_driver import PacedDriver
from zoea.tui.terminal.terminal_input import TerminalInput

END_S = 5.0
"""Seconds that the end may take after the pipe closed; then the process exits."""


class BrowserDriver(PacedDriver, WebDriver):
    """Textual's web driver with a terminal's bounds of input. It also ends when the server was killed."""

    def run_input_thread(self) -> None:
        """Read packets of keys and sizes until the input ends, which ends the app."""
        parser = TerminalInput(XTermParser(self._debug))
        decode = getincrementaldecoder("utf-8")("replace").decode
        packets = ByteStream()

        def parse(data: bytes) -> Iterator[Message]:
            for kind, payload in packets.feed(data):
                if kind == "D":
                    # Its size comes in packets of its own, which the server has checked.
                    yield from (event for event in parser.feed(decode(payload)) if not isinstance(event, Resize))
                else:
                    yield from self._read_meta(payload)

        assert sys.__stdin__ is not None
        with suppress(OSError):
            self.read_input(sys.__stdin__.fileno(), parser, parse)
        if self.exit_event.is_set():
            return
        watchdog = threading.Timer(END_S, os._exit, (1,))
        watchdog.daemon = True
        watchdog.start()
        self._app.post_message(ExitApp())

    def _read_meta(self, payload: bytes) -> Iterator[Message]:
        match json.loads(payload):
            case {"type": "resize", "width": int(width), "height": int(height)}:
                self._size = (width, height)
                yield Resize(Size(width, height), Size(width, height))
            case {"type": "focus"}:
                yield AppFocus()
            case {"type": "blur"}:
                yield AppBlur()

    def write(self, data: str) -> None:
        try:
            super().write(data.encode("utf-8", "replace").decode())
        except BrokenPipeError:
            self._discard_output()

    def write_meta(self, data: dict[str, object]) -> None:
        try:
            super().write_meta(data)
        except BrokenPipeError:
            self._discard_output()

    def _discard_output(self) -> None:
        """Write to /dev/null from now on, because the pipe has no reader any more."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno)
        os.close(nowhere)


def main(arguments: list[str]) -> int:
    """Show the cockpit until its browser leaves. Returns the exit code."""
    # The server writes what comes here to the swarm's log.
    with os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace", buffering=1) as to_server:
        logging.basicConfig(stream=to_server, level=logging.WARNING, format="%(name)s: %(message)s")
        where = places(arguments[0] if arguments else "")
        if arguments[1:] == [READ_ONLY]:
            cockpit = build_watcher(where, writes_files=False)  # who has the address may be someone else
        else:
            cockpit = build_cockpit(where, lambda: attach_to_swarm(where))
        cockpit.driver_class = BrowserDriver
        try:
            show_cockpit(cockpit, where.log)
        except ZoeaError as error:
            sys.stderr.write(f"{error.title}: {error.what}\n")
            return error.exit_code
        return cockpit.return_code or 0


if __name__ == "__main__":
    with short_gc():
        sys.exit(main(sys.argv[1:]))
