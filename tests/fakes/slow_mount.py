"""Screens and readers that take long, as on a slow machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import pytest
from textual.events import Mount
from textual.widget import Widget

P = ParamSpec("P")
R = TypeVar("R")

DELAY_S = 0.2
READ_S = 1.2
"""Seconds of a slow reader; less than a dialog holds keys back."""


def delayed(read: Callable[P, R]) -> Callable[P, R]:
    """Return a reader for a thread that takes its time."""

    def read_late(*given: P.args, **named: P.kwargs) -> R:
        time.sleep(READ_S)
        return read(*given, **named)

    return read_late


def delay_mounts(monkeypatch: pytest.MonkeyPatch, *kinds: type[Widget]) -> None:
    """Delay the end of the mount of every widget of these kinds."""

    async def mount_late(self: Widget, event: Mount) -> None:
        await asyncio.sleep(DELAY_S)

    for kind in kinds:
        monkeypatch.setattr(kind, "_on_mount", mount_late, raising=False)
