"""What is said on stderr while a command waits: to people, never between the lines of `--json`.

With `--json` all of stderr is one object, whose reader may not be made to depend on
how long something took.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import TimerHandle

AFTER_S = 1.0
is_silent = False
"""True while a command runs whose answer is for machines."""


def say(line: str) -> None:
    """One line on stderr, for a person."""
    if not is_silent:
        sys.stderr.write(f"zoea: {line}\n")


def soon(line: str) -> TimerHandle:
    """The same after a second, unless it is cancelled before."""
    import asyncio  # not for the commands that wait for nobody

    return asyncio.get_running_loop().call_later(AFTER_S, say, line)
