"""Progress lines on stderr while a command waits.

With `--json` nothing is written, because stderr then holds one error object or nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import TimerHandle

AFTER_S = 1.0
"""Seconds that a wait must last before it is reported."""

is_silent = False
"""True while a command runs with `--json`."""


def say(line: str) -> None:
    """Write one line to stderr, unless it is empty or the command runs with `--json`."""
    if line and not is_silent:
        sys.stderr.write(f"zoea: {line}\n")


def soon(line: str) -> TimerHandle:
    """Write the line after `AFTER_S` seconds, unless the returned handle is cancelled before."""
    import asyncio  # late: the commands that never wait do not need it
    import threading

    def begin() -> None:
        # A terminal that does not read blocks its writer, which must not be the event loop.
        threading.Thread(target=say, args=(line,), daemon=True, name="notice").start()

    return asyncio.get_running_loop().call_later(AFTER_S, begin)
