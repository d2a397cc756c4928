"""Format stored times for people."""

from __future__ import annotations

from datetime import datetime


def moment(at: int) -> str:
    """Format microseconds since the epoch as local date and time; empty for 0."""
    return datetime.fromtimestamp(at / 1_000_000).strftime("%Y-%m-%d %H:%M:%S") if at else ""
