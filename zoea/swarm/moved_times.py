"""Times of values of the two machines, moved by what the wall clock was set by. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

T = TypeVar("T")
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
    """Return a copy of a dataclass with every time later by `delta` µs. A time that is None stays."""
    if not delta:
        return value
    changes = {name: at + delta for name in _FIELDS if (at := getattr(value, name, None)) is not None}
    # Any dataclass is a T here; its fields are tested for above.
    dataclass: Any = value
    return replace(dataclass, **changes) if changes else value
