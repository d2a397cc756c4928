"""Directories of tests in memory where there is enough: waits for the disk are half of the time of a swarm's test."""

from __future__ import annotations

import os
from pathlib import Path

MEMORY = Path("/dev/shm")
_LEAST_BYTES = 4 << 30
"""A run takes a tenth of it, unless many tests fail, whose directories stay."""


def put_folders_into_memory() -> None:
    """Let pytest make the directories of tests in memory. At full strength they are on the disk."""
    if not os.environ.get("ZOEA_SOAK") and is_roomy(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def is_roomy(folder: Path) -> bool:
    """Return whether a directory is there for this user, has room, and lets programs run."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize >= _LEAST_BYTES and not status.f_flag & os.ST_NOEXEC
