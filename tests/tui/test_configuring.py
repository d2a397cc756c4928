"""The form that changes what a mysis is."""

from __future__ import annotations

from pathlib import Path

from textual.widgets import Input

from tests.tui.cockpit import Stage, cockpit
from zoea.app.configured import configured
from zoea.tui.screens.configuring import Configuring
from zoea.tui.screens.dashboard import Dashboard
from zoea.tui.widgets.choice import Choice
from zoea.tui.widgets.text_block import TextBlock


async def form(stage: Stage) -> None:
    await stage.press("c")
    assert stage.shows(Configuring)
    await stage.until(lambda: "as the settings say" in stage.one(Input, "#budget-mysis").placeholder)


async def test_what_was_changed_counts_and_the_rest_stays(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        before = stage.view()
        await form(stage)
        assert "CONFIGURE alpha" in stage.text()
        stage.one(Choice, "#provider").focus()
        stage.one(Input, "#tags").value = "deep, south deep"
        stage.one(Input, "#budget-mysis").value = "90,000"
        stage.one(Input, "#others").value = "nudge.enabled=false [/]"
        await stage.press("enter")
        await stage.until(lambda: "[/] is no setting of one mysis" in stage.one(TextBlock, "#error").plain)
        stage.one(Input, "#others").value = "nudge.enabled=false"
        await stage.press("enter")
        await stage.until(lambda: stage.shows(Dashboard))
        await stage.until(lambda: set(stage.view().tags) == {"deep", "south"})
        after = stage.view()
        assert (after.model, after.provider, after.template) == (before.model, before.provider, before.template)
        found = configured(None, stage.swarm.path, after.id, stage.clock.now())
        assert found.own == {"budget.mysis": 90_000, "nudge.enabled": False}
        await form(stage)
        assert stage.one(Input, "#budget-mysis").value == "90000"
        stage.one(Input, "#budget-mysis").value = ""
        await stage.press("enter")
        await stage.until(lambda: stage.shows(Dashboard))
        found = configured(None, stage.swarm.path, after.id, stage.clock.now())
        assert found.own == {"nudge.enabled": False}


async def test_what_cannot_be_is_said_in_place(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await form(stage)
        stage.one(Input, "#budget-mysis").value = "many"
        await stage.press("enter")
        await stage.until(lambda: "'many' is no number" in stage.one(TextBlock, "#error").plain)
        stage.one(Input, "#budget-mysis").value = ""
        stage.one(Input, "#others").value = "nudge.idle_interval=never"
        await stage.press("enter")
        await stage.until(lambda: "idle_interval" in stage.one(TextBlock, "#error").plain)
        await stage.press("escape")
        assert stage.shows(Dashboard)


async def test_a_running_mysis_is_stopped_first(tmp_path: Path) -> None:
    async with cockpit(tmp_path, start=True) as stage:
        await stage.press("c")
        assert "stop it first" in stage.notices[-1]
