"""What the cockpit's opening makes of the command line and of the settings."""

from __future__ import annotations

import pytest

from zoea.app.running import RunOptions
from zoea.model.words import MysisState
from zoea.settings import places
from zoea.tui import start


@pytest.mark.parametrize(("resume", "state"), [("true", MysisState.RUNNING), ("false", MysisState.IDLE)])
async def test_a_swarm_that_is_to_resume_starts_all_idle_ones(
    monkeypatch: pytest.MonkeyPatch, resume: str, state: MysisState
) -> None:
    monkeypatch.setenv("ZOEA_SWARM__RESUME", resume)
    options = RunOptions(myses=1, provider="autopilot")
    async with start.opened(options, places(configured=False)) as opened:
        assert [view.state for view in (await opened.api.view()).myses] == [state]
