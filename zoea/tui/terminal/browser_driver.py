"""The cockpit in a browser: a process that `zoea serve` starts for each, attached to the running swarm.

`python -m zoea.tui.terminal.browser_driver [WORKSPACE]`, with Textual's web protocol on its pipes. It
never owns a workspace, and it ends when its input does: whoever served it is gone then.
"""

from __future__ import annotations

import os
import sys
import threading

from textual.drivers.web_driver import WebDriver
from textual.messages import ExitApp

from zoea.model.errors import ZoeaError
from zoea.settings.paths import places
from zoea.tui.start import attached, cockpit_over, shown

END_S = 5.0
"""What the end may take once nobody reads any more; then the process is ended."""


class BrowserDriver(WebDriver):
    """Textual's, which would wait for ever where whoever served it was killed."""

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
            self._go_dark()

    def write_meta(self, data: dict[str, object]) -> None:
        try:
            super().write_meta(data)
        except BrokenPipeError:
            self._go_dark()

    def _go_dark(self) -> None:
        """Nobody reads: what is drawn until the end, which the input's end brings, goes nowhere."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno)
        os.close(nowhere)


def main(arguments: list[str]) -> int:
    """Show the cockpit until its browser leaves. The exit code."""
    where = places(arguments[0] if arguments else "")
    cockpit = cockpit_over(where, lambda: attached(where))
    cockpit.driver_class = BrowserDriver
    try:
        shown(cockpit, where.log)
    except ZoeaError as error:
        sys.stderr.write(f"{error.title}: {error.what}\n")
        return error.exit_code
    return cockpit.return_code or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
