"""A crowd of real myses before a provider in trouble: the benchmark's own scenes, at a size for every day.

`python -m benchmarks.admission` plays them at full size: 500 myses, an outage of 5 s.
"""

from __future__ import annotations

from benchmarks import admission


async def test_many_myses_outlast_an_outage_without_a_storm_or_an_error() -> None:
    found = await admission.storm(120, 24, outage_s=1.0)
    assert found["answered"] == 120
    assert found["errored"] == 0
    assert found["busiest_100_ms"] <= 24 * admission.SLACK
    # The outage costs the gate's first places one refusal each, and whoever tried the reopened door.
    assert found["requests"] <= 2 * 120 + 2 * 24


async def test_a_stop_in_mid_stream_closes_the_connection_and_keeps_the_partial_text() -> None:
    found = await admission.stop()
    assert found["ok"], found


async def test_calls_that_only_read_run_side_by_side_and_others_one_after_another() -> None:
    found = await admission.overlap()
    assert found["read_only_at_once"] == 4
    assert found["others_at_once"] == 1


async def test_a_long_call_of_one_mysis_delays_no_other() -> None:
    found = await admission.slow()
    assert found["ok"], found
