"""The end of a process that cannot end by itself."""

from __future__ import annotations

import logging
import os
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
