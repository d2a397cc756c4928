"""The end of a process that cannot end by itself, and of its terminal."""

from __future__ import annotations

import logging
import os
import stat
import sys
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

FORCED = 1
"""Exit code of a process that was ended by force."""
LAST_WORDS_S = 0.5


def force_end(reason: str) -> None:
    """Write the reason to stderr and to the log, and end the process at once.

    Stdout is not flushed and nothing is closed. Stored data is not lost, because it was committed before.
    """
    line = f"{reason}, so the process was ended; stored data is not lost"

    def write() -> None:
        sys.stderr.write(f"zoea: {line}\n")
        sys.stderr.flush()

    attempt(write)
    attempt(lambda: log.error(line))
    os._exit(FORCED)


def attempt(work: Callable[[], object], within_s: float = LAST_WORDS_S) -> bool:
    """Run `work` in a thread and wait for at most `within_s`. Returns whether it has ended.

    A terminal that does not read, or a lock that another thread holds, would block the caller.
    """
    thread = threading.Thread(target=work, daemon=True, name="last words")
    try:
        thread.start()
    except RuntimeError:  # the interpreter is ending
        return False
    thread.join(within_s)
    return not thread.is_alive()


def detach_terminal() -> None:
    """Redirect the terminal's descriptors to /dev/null, so that later writes do not raise.

    Descriptors of files and pipes stay.
    """
    null = os.open(os.devnull, os.O_RDWR)
    # The cockpit opens the terminal under further descriptors.
    streams = {stream.fileno() for stream in (sys.__stdout__, sys.__stderr__) if stream is not None}
    for descriptor in {0, 1, 2} | streams:
        if stat.S_ISCHR(os.fstat(descriptor).st_mode):
            os.dup2(null, descriptor)
    os.close(null)
