"""The form that configures myses."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input, TextArea

from tests.tui.cockpit import Stage, cockpit, take_steps_anew
from zoea.agents.agent_launch import KnownAgent
from zoea.model.enums import MysisState
from zoea.model.values import ProviderView
from zoea.runtime.mysis_options import read_configuration
from zoea.tui.dialogs.configure import ConfigureDialog
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.inline_choice import InlineChoice
from zoea.tui.widgets.model_field import ModelField


async def form(stage: Stage) -> None:
    await stage.press("c")
    assert stage.shows(ConfigureDialog)
    await stage.until(lambda: "from the settings" in stage.one(Input, "#budget-mysis").placeholder)


async def up_and_down_lead_out_of_the_text_of_settings(stage: Stage) -> None:
    await stage.press("c", until=lambda: "from the settings" in stage.one(Input, "#budget-mysis").placeholder)
    stage.one(TextArea, "#others").focus()
    stage.one(TextArea, "#others").text = "a=1\nb=2"
    await stage.press("down")
    assert stage.one(TextArea, "#others").has_focus
    await stage.press("up", "up")
    assert stage.one(Input, "#budget-mysis").has_focus


async def changed_fields_are_sent_and_the_rest_stays(stage: Stage) -> None:
    before = stage.view()
    await form(stage)
    assert "CONFIGURE alpha" in stage.text()
    stage.one(InlineChoice, "#provider").focus()
    stage.one(Input, "#tags").value = "deep, south deep"
    stage.one(Input, "#budget-mysis").value = "90,000"
    stage.one(TextArea, "#others").text = "nudge.enabled=false [/]"
    await stage.press("enter")
    await stage.until(lambda: "[/] is no setting of one mysis" in stage.one(TextBlock, "#error").plain)
    stage.one(TextArea, "#others").text = "nudge.enabled=false"
    await stage.press("enter", shows=DashboardScreen)
    await stage.until(lambda: set(stage.view().tags) == {"deep", "south"})
    after = stage.view()
    assert " · #deep · #south " in stage.notices[-1]
    assert (after.model, after.provider, after.template) == (before.model, before.provider, before.template)
    found = read_configuration(None, stage.swarm.path, [after.id], stage.clock.now())
    assert found.own == {"budget.mysis": 90_000, "nudge.enabled": False}
    await form(stage)
    assert stage.one(Input, "#budget-mysis").value == "90000"
    stage.one(Input, "#budget-mysis").value = ""
    await stage.press("enter", shows=DashboardScreen)
    found = read_configuration(None, stage.swarm.path, [after.id], stage.clock.now())
    assert found.own == {"nudge.enabled": False}


async def an_invalid_value_is_reported_in_the_form(stage: Stage) -> None:
    await form(stage)
    stage.one(Input, "#budget-mysis").value = "many"
    await stage.press("enter", until=lambda: "'many' is not a number" in stage.one(TextBlock, "#error").plain)
    stage.one(Input, "#budget-mysis").value = ""
    stage.one(Input, "#budget-token_budget_per_task").value = "100"
    await stage.press("enter")
    await stage.until(lambda: "token limits, per turn: Input should be" in stage.one(TextBlock, "#error").plain)
    stage.one(Input, "#budget-token_budget_per_task").value = ""
    stage.one(TextArea, "#others").text = "nudge.idle_interval=never"
    await stage.press("enter", until=lambda: "idle_interval" in stage.one(TextBlock, "#error").plain)
    await stage.press("escape")
    assert stage.shows(DashboardScreen)


async def test_a_running_mysis_is_configured_and_uses_it_from_its_next_turn_on(tmp_path: Path) -> None:
    async with cockpit(tmp_path, start=True) as stage:
        await form(stage)
        assert "CONFIGURE alpha · from its next turn on" in stage.text()
        stage.one(Input, "#model").value = "large"
        await stage.press("enter", until=lambda: stage.view().model == "large")
        assert stage.view().state is MysisState.RUNNING
        assert "from its next turn on" in stage.notices[-1]
        await stage.api.send("alpha", "go on")
        await stage.until(lambda: stage.view().turns == 1)
        assert await stage.swarm.value("SELECT model FROM request") == "large"


async def marked_myses_are_configured_together_and_keep_their_other_values(stage: Stage) -> None:
    ids = [view.id for view in (await stage.api.view()).myses][:2]
    await stage.api.configure(f"#{ids[0]}", tags=("deep",), settings={"budget.mysis": 5000, "llm.retries": 4})
    await stage.api.configure(f"#{ids[1]}", tags=("south",), settings={"budget.mysis": 5000})
    await stage.press("space", "space")
    await form(stage)
    assert "CONFIGURE 2 myses" in stage.text()
    assert stage.one(Input, "#budget-mysis").value == "5000"
    assert (stage.one(Input, "#tags").value, stage.one(Input, "#tags").placeholder) == ("", "unchanged")
    stage.one(Input, "#model").value = "another"
    stage.one(Input, "#budget-mysis").value = "7000"
    await stage.press("enter", shows=DashboardScreen)
    assert "2 myses are configured" in stage.notices[-1]
    found = {view.id: view for view in (await stage.api.view()).myses}
    assert [(found[one].model, found[one].tags) for one in ids] == [("another", ("deep",)), ("another", ("south",))]
    assert [found[one].model == "another" for one in found if one not in ids] == [False]
    own = [read_configuration(None, stage.swarm.path, [one], stage.clock.now()).own for one in ids]
    assert own == [{"budget.mysis": 7000, "llm.retries": 4}, {"budget.mysis": 7000}]


async def test_an_unknown_model_is_kept_only_after_a_second_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def listed() -> tuple[ProviderView, ...]:
        name = stage.view().provider
        return (ProviderView(name, "ollama", name, models=("qwen3:8b", "llama3.2:3b"), is_default=True),)

    async with cockpit(tmp_path) as stage:
        monkeypatch.setattr(stage.api, "providers", listed, raising=False)
        await form(stage)
        models = stage.one(ModelField)
        await stage.until(lambda: models.models == ("qwen3:8b", "llama3.2:3b"))
        models.value = "qwen3:9b"
        await stage.press("enter")
        said = stage.one(TextBlock, "#error")
        await stage.until(lambda: "no model 'qwen3:9b'; the nearest is qwen3:8b. Press enter again" in said.plain)
        assert stage.view().model != "qwen3:9b"
        await stage.press("enter", until=lambda: stage.view().model == "qwen3:9b")


async def test_an_agent_is_named_that_plays_the_mysis_and_none_is_offered_as_a_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KnownAgent, "program", property(lambda self: tmp_path / self.command))
    async with cockpit(tmp_path, names=("beta",)) as stage:
        await stage.api.create("alpha", provider="agent:opencode", start=False)
        await stage.until(lambda: stage.has("alpha"))
        await stage.press("G")
        await form(stage)
        await stage.until(lambda: "opencode (agent), models of autopilot (unchanged)" in stage.text())
        offered = [value for value, _ in stage.one(InlineChoice, "#provider")._options]
        assert not [value for value in offered if value.startswith("agent:")]
        await stage.press("escape", "g")
        await form(stage)
        await stage.until(lambda: "provider    ‹ autopilot (unchanged)" in stage.text())


async def test_myses_are_configured_in_a_form(tmp_path: Path) -> None:
    await take_steps_anew(
        tmp_path,
        up_and_down_lead_out_of_the_text_of_settings,
        changed_fields_are_sent_and_the_rest_stays,
        an_invalid_value_is_reported_in_the_form,
        marked_myses_are_configured_together_and_keep_their_other_values,
    )
