"""Reads a time on the command line, by the system's clock."""

from __future__ import annotations

from zoea.process.clock import SystemClock
from zoea.queries.written_times import read_written_time


def read_time(text: str) -> int:
    """Return the µs UTC of a time as a person writes it. Raises UsageError."""
    return read_written_time(text, SystemClock().now())
