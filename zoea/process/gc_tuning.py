"""Sets the thresholds of the garbage collector for start, swarm and end.

What a start imports stays, and the system takes all memory back at the end. With Python's
defaults a start looks through it hundreds of times, and the end frees it piece by piece.

A swarm makes thousands of short-lived values a second and hardly any cycles. With
Python's default thresholds the collector takes a tenth of the CPU, and a full collection
over a thousand busy myses blocks the event loop for 100 ms. So collections are rare and
bounded to about 10 ms: what a full collection finds alive is frozen, and everything is
collected again only every `WHOLE_EVERY_S`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

START_THRESHOLDS = (20_000, 20, 1)
"""Still often enough for a process that stays and runs no swarm, such as a cockpit that attaches or a world."""
THRESHOLDS = (5_000, 4, 20)
WHOLE_EVERY_S = 600.0
"""Seconds between collections of frozen objects, such as a screen that was closed after a full collection."""

_FULL = 2


@contextmanager
def short_gc() -> Iterator[None]:
    """Collect rarely in a whole process, and not at all when it ends."""
    gc.set_threshold(*START_THRESHOLDS)
    try:
        yield
    finally:
        gc.freeze()


@contextmanager
def tuned_gc(clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Collect rarely, and freeze the survivors of full collections, until the block is left."""
    whole_at = clock()

    def freeze_survivors(phase: str, info: Mapping[str, Any]) -> None:
        nonlocal whole_at
        if info["generation"] != _FULL:
            return
        if phase == "stop":
            gc.freeze()
        elif clock() - whole_at >= WHOLE_EVERY_S:
            whole_at = clock()
            gc.unfreeze()

    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(freeze_survivors)
    try:
        yield
    finally:
        gc.callbacks.remove(freeze_survivors)
        gc.set_threshold(*before)
        gc.unfreeze()
