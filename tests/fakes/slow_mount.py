"""Screens that take long to open, as on a slow machine."""

from __future__ import annotations

import asyncio

import pytest
from textual.events import Mount
from textual.widget import Widget

DELAY_S = 0.2


def delay_mounts(monkeypatch: pytest.MonkeyPatch, *kinds: type[Widget]) -> None:
    """Delay the end of the mount of every widget of these kinds."""

    async def mount_late(self: Widget, event: Mount) -> None:
        await asyncio.sleep(DELAY_S)

    for kind in kinds:
        monkeypatch.setattr(kind, "_on_mount", mount_late, raising=False)
