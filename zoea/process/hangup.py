"""When the terminal is gone: what would be written there goes nowhere, and nothing fails for it."""

from __future__ import annotations

import os
import stat
import sys


def detach_terminal() -> None:
    """The terminal is gone: what would be written there goes nowhere, and a file or pipe goes on as before."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    # A screen has the terminal under descriptors of its own.
    streams = {stream.fileno() for stream in (sys.__stdout__, sys.__stderr__) if stream is not None}
    for descriptor in {0, 1, 2} | streams:
        if stat.S_ISCHR(os.fstat(descriptor).st_mode):
            os.dup2(nowhere, descriptor)
    os.close(nowhere)
