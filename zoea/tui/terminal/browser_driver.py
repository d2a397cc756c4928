"""The driver of a cockpit in a browser. `zoea serve` starts one process for each.

`python -m zoea.tui.terminal.browser_driver [WORKSPACE]` speaks Textual's web protocol on its pipes. It never owns a
workspace, and it ends when its input ends, because the server is gone then.
"""

from __future__ import annotations

import os
import sys
import threading

from textual.drivers.web_driver import WebDriver
from textual.messages import ExitApp

from zoea.model.errors import ZoeaError
from zoea.settings.paths import places
from zoea.tui.start import attach_to_swarm, build_cockpit, show_cockpit

END_S = 5.0
"""Seconds that the end may take after the pipe closed; then the process exits."""


class BrowserDriver(WebDriver):
    """Textual's web driver, which also ends when the server was killed."""

    def run_input_thread(self) -> None:
        super().run_input_thread()
        if self.exit_event.is_set():
            return
        watchdog = threading.Timer(END_S, os._exit, (1,))
        watchdog.daemon = True
        watchdog.start()
        self._app.post_message(ExitApp())

    def write(self, data: str) -> None:
        try:
            super().write(data)
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
    where = places(arguments[0] if arguments else "")
    cockpit = build_cockpit(where, lambda: attach_to_swarm(where))
    cockpit.driver_class = BrowserDriver
    try:
        show_cockpit(cockpit, where.log)
    except ZoeaError as error:
        sys.stderr.write(f"{error.title}: {error.what}\n")
        return error.exit_code
    return cockpit.return_code or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
