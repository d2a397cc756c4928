"""The system's clock: boot time for durations, a wall time that goes on evenly until it is followed."""

from __future__ import annotations

import asyncio
import time

import pytest

from zoea.process import clock as clock_module
from zoea.process.clock import BootTimeLoop, SystemClock, read_uptime, run_on_boot_time

DAY_US = 86_400_000_000


@pytest.mark.parametrize("set_by", [1_000_000, -1_000_000, DAY_US, -DAY_US, 400 * DAY_US])
def test_a_wall_clock_that_is_set_is_followed_once(set_by: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    before = clock.now()
    monkeypatch.setattr(clock_module, "read_wall_time", lambda: time.time_ns() // 1_000 + set_by)
    assert abs(clock.now() - before) < 400_000_000, "it goes on evenly"
    assert abs(clock.follow() - set_by) < 400_000
    assert clock.follow() == 0
    assert abs(clock.now() - clock_module.read_wall_time()) < 500_000


def test_a_wall_clock_that_drifts_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    monkeypatch.setattr(clock_module, "read_wall_time", lambda: clock.now() + 100_000)
    assert clock.follow() == 0


def test_uptime_counts_the_time_of_a_suspension() -> None:
    boot = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    before = time.clock_gettime_ns(boot) // 1_000
    assert before <= read_uptime() <= time.clock_gettime_ns(boot) // 1_000


def test_a_deadline_passes_while_the_machine_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's time goes on by an hour, as after a suspension. The next thing that wakes it ends the deadline."""
    slept = 0.0
    monkeypatch.setattr("zoea.process.clock.read_uptime_s", lambda: time.monotonic() + slept)

    async def main() -> bool:
        nonlocal slept
        assert isinstance(asyncio.get_running_loop(), BootTimeLoop)
        try:
            async with asyncio.timeout(1800):
                slept = 3600.0
                # The check of the clock wakes the loop.
                asyncio.get_running_loop().call_soon(lambda: None)
                await asyncio.Event().wait()
        except TimeoutError:
            return True
        return False

    assert run_on_boot_time(main())
