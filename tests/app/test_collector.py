"""The collector looks less often while a swarm runs, and as before afterwards."""

from __future__ import annotations

import gc

from zoea.app.collector import THRESHOLDS, seldom_collected


def test_thresholds_are_raised_while_a_swarm_runs_and_put_back_after_it() -> None:
    before = gc.get_threshold()
    with seldom_collected():
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
