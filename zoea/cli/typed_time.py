"""Read the times that people write."""

from __future__ import annotations

from datetime import datetime

from zoea.model.errors import UsageError
from zoea.process.clock import SystemClock
from zoea.queries.search_reader import parse_moment


def read_time(text: str) -> int:
    """Return the µs UTC of a time as a person writes it. Raises UsageError."""
    found = parse_moment(text, SystemClock().now())
    if found is not None:
        return found
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1_000_000)
    except ValueError:
        raise UsageError(f"{text!r} is no time", hint="Give 10:30, 2h (ago), 2026-01-31 or ISO 8601.") from None
