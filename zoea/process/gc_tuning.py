"""How often Python looks for cycles while a swarm runs, and among how much.

A swarm makes thousands of short-lived values a second and hardly a cycle among
them. With the interpreter's own thresholds a tenth of the CPU goes into looking,
and a full look over a thousand busy myses holds up the loop for 100 ms: longer than
a key may wait. So looks are seldom, but never of so much that one takes longer than
about 10 ms; what a full one finds alive stands aside from then on, and only once in a
while is everything looked through again.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

THRESHOLDS = (2_000, 10, 20)
WHOLE_EVERY_S = 600.0
"""How long garbage may lie among what stands aside: a closed screen's, say, which was open during a full look."""

_FULL = 2


@contextmanager
def tuned_gc(clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Look for cycles less often, and seldom among what stands already, until the block is left."""
    whole_at = clock()

    def looking(phase: str, info: Mapping[str, Any]) -> None:
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
    gc.callbacks.append(looking)
    try:
        yield
    finally:
        gc.callbacks.remove(looking)
        gc.set_threshold(*before)
        gc.unfreeze()
