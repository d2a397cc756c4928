"""The collector looks less often while a swarm runs, among less, and as before afterwards."""

from __future__ import annotations

import gc
import weakref

from zoea.process.gc_tuning import THRESHOLDS, WHOLE_EVERY_S, tuned_gc


class Knot:
    """Garbage that only the collector can find."""

    def __init__(self) -> None:
        self.itself = self


def test_thresholds_are_raised_while_a_swarm_runs_and_put_back_after_it() -> None:
    before, callbacks = gc.get_threshold(), list(gc.callbacks)
    with tuned_gc():
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
    assert gc.callbacks == callbacks


def test_what_a_full_look_finds_alive_stands_aside_until_everything_is_looked_through() -> None:
    now = 0.0
    with tuned_gc(lambda: now):
        fresh, old = Knot(), Knot()
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


def test_a_swift_look_leaves_everything_as_it_was() -> None:
    with tuned_gc():
        before = gc.get_freeze_count()
        kept = [Knot() for _ in range(100)]
        gc.collect(1)
        assert gc.get_freeze_count() <= before
        assert kept
