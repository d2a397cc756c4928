"""The template `nova` with the old limits sends what it sent under the planning rules 1; its open turns go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fakes.llm_clock import HandClock
from tests.swarm.harness import swarm
from tests.swarm.recorded_turns import (
    model,
    old_templates,
    play_turns,
    read_calibrations,
    read_requests,
    settings,
    unpack_database,
    written,
)
from zoea.swarm.persistence import spend_ops


async def test_the_recorded_turns_are_sent_again_byte_for_byte(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = model()
    calibrations = iter(read_calibrations(tmp_path_factory.mktemp("recorded")))
    monkeypatch.setattr(spend_ops, "calibration", lambda *_: next(calibrations))

    async with swarm(tmp_path, settings=settings(), provider=provider, templates=old_templates(tmp_path)) as s:
        async with asyncio.timeout(60):
            await play_turns(s)

    assert [written(request) for request in provider.requests] == read_requests()


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
