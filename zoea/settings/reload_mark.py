"""A file that tells every front that the swarm read its settings again."""

from __future__ import annotations

import logging
from pathlib import Path

log = logging.getLogger(__name__)
_MARK = "reloaded"


def begin_reload(data: Path) -> Path:
    """Return a new file with the time before settings and keys are read, for `end_reload`.

    Args:
        data: The workspace's data directory.
    """
    begun = data / f"{_MARK}.new"
    try:
        begun.unlink(missing_ok=True)
        begun.touch(mode=0o600)
    except OSError as error:  # only the notices of fronts depend on it
        log.warning("the reload could not be marked: %s", error)
    return begun


def end_reload(begun: Path) -> None:
    """Make the mark visible: what changed before its time is applied."""
    try:
        begun.replace(begun.with_name(_MARK))
    except OSError as error:
        log.warning("the reload could not be marked: %s", error)


def read_reload_mark(data: Path) -> int:
    """Return the time of the newest mark in nanoseconds; 0 without one."""
    try:
        return (data / _MARK).stat().st_mtime_ns
    except OSError:
        return 0
