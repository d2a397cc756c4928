"""The thresholds of the garbage collector in a process and while a swarm runs.

Each check has a new interpreter. Collecting all that a worker has loaded takes half a second, and what was frozen in it
would be looked through by every later test.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from zoea.process.gc_tuning import START_THRESHOLDS, THRESHOLDS, WHOLE_EVERY_S, short_gc, tuned_gc

ROOT = Path(__file__).parents[2]


def apart(test: Callable[[], None]) -> Callable[[], None]:
    """Run a test in a new interpreter, which has loaded little."""

    @wraps(test)
    def run() -> None:
        code = f"from {__name__} import {test.__name__} as test; test.__wrapped__()"
        ran = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=50, check=False
        )
        assert ran.returncode == 0, ran.stderr

    return run


class Cycle:
    """Garbage that only the collector can find."""

    def __init__(self) -> None:
        self.itself = self


@apart
def test_thresholds_are_raised_inside_the_block_and_restored_after_it() -> None:
    before, callbacks = gc.get_threshold(), list(gc.callbacks)
    with tuned_gc():
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
    assert gc.callbacks == callbacks


@apart
def test_survivors_of_a_full_collection_are_frozen_until_the_next_complete_one() -> None:
    now = 0.0
    with tuned_gc(lambda: now):
        fresh, old = Cycle(), Cycle()
        seen = weakref.ref(fresh)
        del fresh
        gc.collect()
        assert seen() is None
        seen = weakref.ref(old)
        del old
        gc.collect()
        assert seen() is not None, "it was alive at the first look"
        now = WHOLE_EVERY_S
        gc.collect()
        assert seen() is None


@apart
def test_a_young_collection_freezes_nothing() -> None:
    with tuned_gc():
        before = gc.get_freeze_count()
        kept = [Cycle() for _ in range(100)]
        gc.collect(1)
        assert gc.get_freeze_count() <= before
        assert kept


@apart
def test_a_process_collects_rarely_and_frees_nothing_at_its_end() -> None:
    with short_gc():
        assert gc.get_threshold() == START_THRESHOLDS
        assert gc.get_freeze_count() == 0
    assert gc.get_freeze_count() > 0
