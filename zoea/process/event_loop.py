"""The event loop on boot time: timers and deadlines count the time of a suspension.

A loop that sleeps is not woken by the end of a suspension; the owner's check of the clock wakes it once a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from zoea.process.clock import read_uptime_s

T = TypeVar("T")


class BootTimeLoop(asyncio.SelectorEventLoop):
    """An event loop with `time` in seconds of boot time."""

    def time(self) -> float:
        return read_uptime_s()


def run_on_boot_time(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` like `asyncio.run`, on a `BootTimeLoop`."""
    with asyncio.Runner(loop_factory=BootTimeLoop) as runner:
        return runner.run(main)
