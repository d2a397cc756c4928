"""Reads the times that people write, such as `2h`, `10:30` and `2026-01-31`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from zoea.model.errors import UsageError

_SECOND = 1_000_000
_SPANS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_moment(text: str, now: int) -> int | None:
    """Parse `2h` (ago), `10:30` (today) or `2026-01-31`, in local time, to µs UTC; else None."""
    today = datetime.fromtimestamp(now / _SECOND)
    if match := re.fullmatch(r"(\d{1,6})([smhdw])", text):
        ago = timedelta(**{_SPANS[match[2]]: int(match[1])})
        return now - round(ago.total_seconds() * _SECOND)
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}", text):
            clock = datetime.strptime(text, "%H:%M")
            written = today.replace(hour=clock.hour, minute=clock.minute, second=0, microsecond=0)
            return round(written.timestamp()) * _SECOND
        return round(datetime.strptime(text, "%Y-%m-%d").timestamp()) * _SECOND
    except ValueError:
        return None


def read_moment(text: str, now: int) -> int:
    """Return the end of a written moment in µs UTC. A time without a fraction includes its whole second.

    Raises:
        UsageError: It is no time.
    """
    at = read_written_time(text, now)
    return at if at % _SECOND else at + _SECOND - 1


def read_written_time(text: str, now: int) -> int:
    """Return the µs UTC of a time as a person writes it. Raises UsageError."""
    moment = parse_moment(text, now)
    if moment is not None:
        return moment
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1_000_000)
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{text!r} is no time", hint="Give 10:30, 2h (ago), 2026-01-31 or ISO 8601.") from None
