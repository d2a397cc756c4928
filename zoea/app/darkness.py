"""When the terminal is gone: what would be written there goes nowhere, and nothing fails for it."""

from __future__ import annotations

import os
import stat


def go_dark() -> None:
    """The terminal is gone: what would be written there goes nowhere, and a file or pipe goes on as before."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        if stat.S_ISCHR(os.fstat(descriptor).st_mode):
            os.dup2(nowhere, descriptor)
    os.close(nowhere)
