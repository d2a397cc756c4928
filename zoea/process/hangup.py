"""Output of a process that has lost its terminal."""

from __future__ import annotations

import os
import stat
import sys


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
