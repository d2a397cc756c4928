"""How often Python looks for cycles while a swarm runs.

A swarm makes thousands of short-lived values a second and hardly a cycle among
them. With the interpreter's own thresholds a tenth of the CPU goes into looking,
and a full look over a thousand myses holds up the loop for longer than a person's
prompt may wait.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (5_000, 20, 20)


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Look for cycles less often, and never among what stands already, until the block is left."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
