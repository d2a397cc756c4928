"""Every text of a mysis is shown as text and never obeyed, wherever it stands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fakes.swarm import FakeSwarm
from tests.tui.cockpit import START, cockpit_over
from tests.tui.hostile_texts import HOSTILE, is_harmless
from zoea.model.enums import Activity, MysisState
from zoea.model.values import ApprovalView, Failure
from zoea.tui.dialogs.approvals import ApprovalDialog
from zoea.tui.screens.dashboard import DashboardScreen

AT_ONCE = 3


async def say_everywhere(fake: FakeSwarm, number: int, texts: Sequence[str]) -> None:
    """Let three myses be called, say and fail with one text each. The first asks for all of them."""
    for mysis_id, text in enumerate(texts, 1):
        view = await fake.mysis(f"#{mysis_id}")
        failure = Failure("x", text, text, text) if mysis_id > 1 else None
        state = MysisState.ERRORED if failure else MysisState.RUNNING
        called = replace(view, name=f"{text[:60]}{mysis_id}", template=text[:200], provider=text[:200])
        fake.put(replace(called, model=text[:200], text=text, streaming=text, failure=failure, state=state), "x.state")
    text = " ".join(texts)
    asking = replace(await fake.mysis("#1"), approvals=1, activity=Activity.ASKING)
    fake.asked = {number: ApprovalView(number, 1, text, text, text, text, START, START + 1_800_000_000)}
    fake.put(asking, "approval.asked")


@pytest.mark.timeout(240)
async def test_every_part_of_the_dashboard_shows_hostile_names_as_text(tmp_path: Path) -> None:
    fake = FakeSwarm()
    for name in ("alpha", "beta", "gamma"):
        await fake.create(name)
    async with cockpit_over(fake, tmp_path / "no.db", size=(160, 40)) as stage:
        for number in range(1, len(HOSTILE) // AT_ONCE + 1):
            texts = HOSTILE[(number - 1) * AT_ONCE : number * AT_ONCE]
            await say_everywhere(fake, number, texts)
            await stage.until(lambda: [one.id for one in stage.app.approvals.open] == [number])  # noqa: B023  waited for here
            await stage.until(lambda: stage.has(*(f"{text[:60]}{at}" for at, text in enumerate(texts, 1))))  # noqa: B023  waited for here
            for keys in ("j", "b", "escape m", "escape d", "escape colon", "s t o p space"):
                await stage.press(*keys.split())
                assert is_harmless(stage.text())
            await stage.press("escape", "slash")
            await stage.write("list")
            await stage.press("escape", "o")
            assert stage.shows(ApprovalDialog)
            assert is_harmless(stage.text())
            assert stage.app._exception is None
            await stage.press("escape")
            assert stage.shows(DashboardScreen)
