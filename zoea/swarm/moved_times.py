"""Times of values of the two machines, moved by what the wall clock was set by. Pure."""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

T = TypeVar("T", bound=Struct)
_FIELDS = (
    "at",
    "created_at",
    "held_since",
    "progress_at",
    "quiet_since",
    "rest_until",
    "resumed_at",
    "retry_at",
    "until",
    "wait_until",
)


def move_times(value: T, delta: int) -> T:
    """Return a copy of a struct with every time later by `delta` µs. A time that is None stays."""
    if not delta:
        return value
    changes = {name: at + delta for name in _FIELDS if (at := getattr(value, name, None)) is not None}
    return replace(value, **changes) if changes else value
