"""`zoea run` in which something is stuck: `python -m tests.e2e.hindered_cockpit HINDRANCE FILE [ARGUMENTS]`.

Hindrances: `deadlock` and `busy` block the event loop once FILE exists, at a lock or in an endless loop;
`small-queue` lets 50 kB wait for the terminal; `lag` blocks the event loop for a moment when upstreams are listed;
`unopened` opens the swarm only once FILE exists; `defect` raises an error in the cockpit once FILE exists.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from types import ModuleType

from zoea.__main__ import run
from zoea.model.values import UpstreamView
from zoea.process import signal_watchdog
from zoea.runtime.connections import LiveConnections
from zoea.tui import start
from zoea.tui.app import CockpitApp
from zoea.tui.terminal import terminal_driver

ANSWER_S = 0.5
LAG_S = 1.0
SECRET = "typed-canary-4711"


def block_when(file: Path, how: str) -> None:
    """Block the event loop at the first tick after `file` was made."""
    tick = CockpitApp.tick

    def blocked(self: CockpitApp) -> None:
        tick(self)
        if file.exists():
            file.unlink()
            if how == "busy":
                while True:
                    time.sleep(0)
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()

    CockpitApp.tick = blocked  # type: ignore[method-assign]  # the hindrance


def hold_up_upstreams() -> None:
    """Block the event loop for a moment in each list of upstreams."""

    async def upstreams(self: LiveConnections) -> tuple[UpstreamView, ...]:
        threading.Event().wait(LAG_S)
        return ()

    LiveConnections.upstreams = upstreams  # type: ignore[method-assign]  # the hindrance


def open_when(file: Path) -> None:
    """Hold up the imports that open a swarm until `file` exists."""
    import_composition = start._import_composition

    def import_late() -> tuple[ModuleType, ModuleType, ModuleType]:
        while not file.exists():
            threading.Event().wait(0.02)
        return import_composition()

    start._import_composition = import_late


def fail_when(file: Path) -> None:
    """Raise an error at the first tick after `file` was made. A variable beside it holds a secret."""
    tick = CockpitApp.tick

    def failed(self: CockpitApp) -> None:
        typed = SECRET
        tick(self)
        if file.exists() and typed:
            raise RuntimeError("a defect of this test")

    CockpitApp.tick = failed  # type: ignore[method-assign]  # the hindrance


def main(hindrance: str, file: str, *arguments: str) -> int:
    """Run `zoea ARGUMENTS` with a hindrance."""
    if hindrance == "lag":
        hold_up_upstreams()
    elif hindrance == "small-queue":
        terminal_driver.LIMIT = 50_000
    elif hindrance == "unopened":
        open_when(Path(file))
    elif hindrance == "defect":
        fail_when(Path(file))
    else:
        signal_watchdog.ANSWER_S = ANSWER_S
        block_when(Path(file), hindrance)
    return run(list(arguments))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
