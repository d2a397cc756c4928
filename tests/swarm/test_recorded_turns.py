"""A turn that was open under the planning rules 1 goes on under them."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.llm_clock import HandClock
from tests.swarm.harness import swarm
from tests.swarm.recorded_turns import (
    model,
    read_requests,
    settings,
    unpack_database,
    written,
)


async def test_a_turn_that_was_open_under_rules_1_goes_on_under_them(tmp_path: Path) -> None:
    unpack_database(tmp_path)
    provider = model()
    clock = HandClock(1_800_000_000_000_000)

    async with swarm(tmp_path, settings=settings(), provider=provider, clock=clock) as s:
        assert await s.value("SELECT frozen ->> '$.plan_version' FROM turn WHERE outcome IS NULL") == 1
        await s.commander.start("beta")
        await s.until(lambda: provider.calls > 0)

    last = read_requests()[-1]
    assert last["mysis"] == "beta"
    assert written(provider.requests[0])["messages"] == last["messages"]
