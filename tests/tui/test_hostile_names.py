"""Whatever a mysis is called, says, fails with or asks for is shown as text, and never obeyed, wherever it stands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.swarm import FakeSwarm
from tests.tui.cockpit import START, cockpit_over
from tests.tui.hostile import HOSTILE, is_harmless
from zoea.model.values import ApprovalView, Failure
from zoea.model.words import Activity, MysisState
from zoea.tui.screens.approvals import ApprovalPanel


async def hostile_swarm(text: str) -> FakeSwarm:
    fake = FakeSwarm()
    for number in range(3):
        view = await fake.create(f"{text[:60]}{number}", template=text[:200], provider=text[:200], model=text[:200])
        failure = Failure("x", text, text, text) if number else None
        state = MysisState.ERRORED if number else MysisState.RUNNING
        fake._put(
            replace(view, text=text, streaming=text, failure=failure, state=state, approvals=1 - min(1, number)),
            "mysis.state",
        )
    fake._put(replace(await fake.mysis("#1"), activity=Activity.ASKING), "approval.asked")
    fake.asked[1] = ApprovalView(1, 1, text, text, text, text, START, START + 1_800_000_000)
    return fake


@pytest.mark.parametrize("text", HOSTILE)
async def test_every_part_of_the_dashboard_shows_it_as_text(tmp_path: Path, text: str) -> None:
    fake = await hostile_swarm(text)
    async with cockpit_over(fake, tmp_path / "no.db", size=(160, 40)) as stage:
        await stage.until(lambda: stage.app.asked.open)
        for keys in ("j", "b", "escape m", "escape d", "escape colon", "s t o p space"):
            await stage.press(*keys.split())
            assert is_harmless(stage.text())
        await stage.press("escape", "slash")
        await stage.write("list")
        await stage.press("escape", "o")
        assert stage.shows(ApprovalPanel)
        assert is_harmless(stage.text())
        assert stage.app._exception is None
