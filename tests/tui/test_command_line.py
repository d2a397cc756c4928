"""The `:` prompt and the palette: completion, names, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.command import CommandPalette
from textual.widgets import Input

from tests.tui.cockpit import Stage, cockpit, take_steps
from zoea.cli.dispatch import COMMANDS
from zoea.model.enums import MysisState
from zoea.model.errors import UsageError
from zoea.model.values import MysisView
from zoea.tui.commands.actions import ACTIONS
from zoea.tui.dialogs import command_line
from zoea.tui.dialogs.command_line import CommandPromptDialog, complete
from zoea.tui.dialogs.modal import ConfirmDialog
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.screens.inspector import InspectorScreen
from zoea.tui.screens.search import SearchScreen
from zoea.tui.screens.settings import SettingsScreen
from zoea.tui.theme import themes
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.line_list import PickList
from zoea.tui.widgets.message_prompt import MessagePrompt


async def typed(stage: Stage, line: str) -> None:
    await stage.press("colon")
    assert stage.shows(CommandPromptDialog)
    await stage.write(line)


async def run(stage: Stage, line: str) -> None:
    await typed(stage, line)
    await stage.press("enter")


def error(stage: Stage) -> str:
    return stage.one(TextBlock, "#error").plain


async def test_send_says_something_to_one_by_name(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await run(stage, "send BETA hello [/] there")
        await stage.until(lambda: stage.view("beta").turns == 1)
        assert await stage.swarm.value("SELECT content FROM message") == "hello [/] there"
        assert stage.shows(DashboardScreen)


async def send_without_a_text_opens_the_prompt_for_it(stage: Stage) -> None:
    await run(stage, "send gamma")
    await stage.until(lambda: stage.one(MessagePrompt).is_open)
    assert "MESSAGE to gamma" in stage.text()


async def test_broadcast_reaches_all(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await run(stage, "broadcast mine iron")
        await stage.until(lambda: all(view.turns == 1 for view in stage.app.feed.myses.values()))


async def test_stop_and_start_take_several_names(tmp_path: Path) -> None:
    async with cockpit(tmp_path, start=True) as stage:
        await run(stage, "stop alpha gamma")
        await stage.until(lambda: stage.view("gamma").state is MysisState.STOPPED)
        await stage.until(lambda: stage.view("alpha").state is MysisState.STOPPED)
        assert stage.view("beta").state is MysisState.RUNNING
        await run(stage, "start alpha")
        await stage.until(lambda: stage.view("alpha").state is MysisState.RUNNING)


async def test_delete_by_name_still_asks(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await run(stage, "delete beta")
        await stage.until(lambda: stage.shows(ConfirmDialog))
        assert "Delete beta?" in stage.text()
        await stage.press("y", until=lambda: not stage.has("beta"))


async def test_stop_all_typed_still_asks(tmp_path: Path) -> None:
    async with cockpit(tmp_path, start=True) as stage:
        said = "Stop every mysis, or only the marked or filtered ones (asks you first)"
        assert said in [one.title for one in complete(stage.app, "stop-all")]
        await run(stage, "stop-all")
        await stage.until(lambda: stage.shows(ConfirmDialog))
        await stage.press("y")
        await stage.until(lambda: all(v.state is MysisState.STOPPED for v in stage.app.feed.myses.values()))


async def test_new_makes_a_mysis_of_a_template(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await run(stage, "new delta miner")
        await stage.until(lambda: stage.has("delta"))
        assert stage.view("delta").template == "miner"


async def test_new_makes_a_mysis_on_a_folder_that_tab_completes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop" / "source").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    async with cockpit(tmp_path) as stage:
        create, asked = stage.api.create, dict[str, Any]()

        async def listen(name: str, **more: Any) -> MysisView:
            asked[name] = more.pop("on"), more.pop("worktree"), more["template"]
            return await create(name, **more)

        monkeypatch.setattr(stage.app.api, "create", listen)
        assert [one.line for one in complete(stage.app, "new delta --on sh")] == ["new delta --on shop/"]
        assert [one.line for one in complete(stage.app, "new delta --on shop/")] == ["new delta --on shop/source/"]
        await run(stage, "new delta --on shop --worktree")
        await stage.until(lambda: stage.has("delta"))
        await run(stage, "new eta miner --on ./shop/source")
        await stage.until(lambda: stage.has("eta"))
        folder = str(tmp_path / "shop")
        assert asked == {"delta": (folder, True, ""), "eta": (f"{folder}/source", False, "miner")}
        for line in ("new a --on", "new a --worktree", "new a b c", "new a --of x", "new 'a"):
            with pytest.raises(UsageError):
                command_line.run(stage.app, line)


async def result_shows_what_a_mysis_did(stage: Stage) -> None:
    await run(stage, "result beta")
    await stage.until(lambda: stage.shows(FocusScreen) and "RESULT" in stage.text())
    assert "beta" in stage.text().partition("\n")[0]


async def test_theme_names_a_file_that_is_broken(tmp_path: Path) -> None:
    broken = tmp_path / "config" / "themes" / "mud.toml"
    async with cockpit(tmp_path) as stage:
        broken.parent.mkdir(parents=True)
        broken.write_text("dark = 3")
        await run(stage, "theme mud")
        assert f"{broken}:" in error(stage)
        assert "dark must be true or false" in error(stage)


async def theme_shows_another_theme(stage: Stage) -> None:
    await run(stage, "theme tide")
    assert stage.app.theme == "tide"


async def test_withdraw_removes_the_waiting_messages_of_a_mysis(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.swarm.commander.hold(True)
        for text in ("mine iron", "sell it"):
            await stage.swarm.commander.send("beta", text)
        await stage.until(lambda: stage.view("beta").pending == 2)
        assert [(one.line, one.title) for one in complete(stage.app, "withdraw ")] == [("withdraw beta", "2 waiting")]
        await run(stage, "withdraw BETA")
        await stage.until(lambda: stage.view("beta").pending == 0)
        assert await stage.swarm.value("SELECT count(*) FROM delivery WHERE state = 'withdrawn'") == 2
        await run(stage, "withdraw")
        assert "withdraw needs a name" in error(stage)


async def an_id_is_a_command_too(stage: Stage) -> None:
    await run(stage, "mysis.mark-all")
    await stage.until(lambda: len(stage.app.marks) == 3)


async def an_error_is_shown_at_the_prompt_and_the_line_can_be_corrected(stage: Stage) -> None:
    for line, why in (
        ("fly", "there is no command 'fly'"),
        ("stop nobody", "there is no mysis 'nobody'"),
        ("start alpha", "it already runs; m sends it a message"),
        ("theme mud", "there is no theme 'mud'"),
        ("hold tight", "there is no mysis 'tight'"),
        ("settings now", "settings takes nothing after it"),
        ("mysis.undo", "there is nothing to undo"),
    ):
        await run(stage, line)
        assert why in error(stage)
        assert stage.shows(CommandPromptDialog)
        await stage.press("escape")


async def an_error_disappears_when_the_line_changes(stage: Stage) -> None:
    await run(stage, "fly")
    await stage.press("backspace")
    assert error(stage) == ""


async def tab_completes_commands_then_names(stage: Stage) -> None:
    await typed(stage, "stop")
    await stage.press("tab")
    await stage.write("g")
    await stage.press("tab", "enter", until=lambda: stage.view("gamma").state is MysisState.STOPPED)


async def arrows_choose_a_completion_and_enter_runs_it(stage: Stage) -> None:
    await typed(stage, "theme ")
    await stage.press("down", "down", "up", "enter")
    assert stage.app.theme == next(iter(stage.app.theme_specs))


async def completions_say_why_a_command_is_not_possible(stage: Stage) -> None:
    await typed(stage, "start")
    shown = " ".join(stage.one(TextBlock, "#completions").plain.split())
    assert "not now: it already runs; m sends it a message" in shown


async def an_empty_line_just_leaves(stage: Stage) -> None:
    await stage.press("colon", "enter")
    assert stage.shows(DashboardScreen)


async def test_the_colon_in_a_text_is_a_colon(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("m")
        await stage.write("note: x")
        assert stage.one(MessagePrompt).text == "note: x"


def test_every_word_means_one_action() -> None:
    words = [word for action in command_line.typed() for word in command_line.words_of(action)]
    assert sorted(words) == sorted(set(words))


def test_a_command_of_the_command_line_has_the_same_word_where_the_cockpit_has_it() -> None:
    words = {word for action in command_line.typed() for word in command_line.words_of(action)}
    outside = "run serve fork list keep undelete log import ctx metrics approve deny trust credentials providers prices"
    # Their own process, a screen that is open, or no action.
    outside += " acp agents local completion doctor purge redact world workbench merge drop"
    assert sorted(set(COMMANDS) - words) == sorted(outside.split())


async def explain_by_name_opens_the_inspector(stage: Stage) -> None:
    await run(stage, "explain beta")
    await stage.until(lambda: stage.shows(InspectorScreen))


def test_every_action_with_a_word_can_be_typed() -> None:
    assert {action.id for action in ACTIONS if action.command} <= {action.id for action in command_line.typed()}


# The palette.


async def search_palette(stage: Stage, text: str) -> None:
    await stage.press("ctrl+p")
    assert stage.shows(CommandPalette)
    stage.one(Input).value = text


async def the_palette_finds_an_action_and_runs_it_on_the_screen_below(stage: Stage) -> None:
    await search_palette(stage, "mark all")
    await stage.until(lambda: "Mark all shown myses" in stage.text())
    await stage.press("enter", until=lambda: len(stage.app.marks) == 3)
    assert stage.shows(DashboardScreen)


async def the_palette_says_why_an_action_is_not_possible(stage: Stage) -> None:
    await search_palette(stage, "relaunch")
    await stage.until(lambda: "not now: it already runs; m sends it a message" in stage.text())


async def test_a_line_or_word_that_is_not_possible_says_why(tmp_path: Path) -> None:
    async with cockpit(tmp_path, start=True) as stage:
        await take_steps(
            stage,
            an_error_is_shown_at_the_prompt_and_the_line_can_be_corrected,
            completions_say_why_a_command_is_not_possible,
            the_palette_says_why_an_action_is_not_possible,
            tab_completes_commands_then_names,
        )


async def test_the_palette_begins_with_what_this_screen_can_do(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(80, 24)) as stage:
        await stage.press("ctrl+p", shows="Create a mysis")
        lines = stage.text().split("\n")
        sign = next(line for line in lines if "Type to find a command" in line)
        assert sign.startswith(f"│ {stage.app.glyphs['brand']} ")
        assert "Create a mysis" in lines[lines.index(sign) + 3]
        assert "What every key does" not in stage.text()


async def the_palette_finds_a_mysis_and_opens_its_conversation(stage: Stage) -> None:
    await search_palette(stage, "gamma")
    await stage.until(lambda: "mysis  gamma" in stage.text())
    await stage.press("enter", until=lambda: isinstance(stage.screen, FocusScreen) and stage.screen.mysis_id == 3)


async def the_palette_finds_a_theme_and_shows_it(stage: Stage) -> None:
    await search_palette(stage, "deuteranopia")
    await stage.until(lambda: "theme  deuteranopia" in stage.text())
    await stage.press("enter", until=lambda: stage.app.theme_spec.name == "deuteranopia")


async def the_palette_finds_a_setting_and_opens_it(stage: Stage) -> None:
    await search_palette(stage, "nudge.max_per_hour")
    await stage.until(lambda: "setting  nudge.max_per_hour" in stage.text())
    await stage.press("enter")
    await stage.until(lambda: isinstance(stage.screen, SettingsScreen) and stage.screen.field is not None)
    assert isinstance(stage.screen, SettingsScreen)
    await stage.until(lambda: stage.one(PickList, "#fields").chosen == "nudge.max_per_hour")


async def test_lines_of_the_prompt_and_words_of_the_palette_do_what_they_say(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await take_steps(
            stage,
            send_without_a_text_opens_the_prompt_for_it,
            result_shows_what_a_mysis_did,
            theme_shows_another_theme,
            an_id_is_a_command_too,
            an_error_disappears_when_the_line_changes,
            arrows_choose_a_completion_and_enter_runs_it,
            an_empty_line_just_leaves,
            explain_by_name_opens_the_inspector,
            the_palette_finds_an_action_and_runs_it_on_the_screen_below,
            the_palette_finds_a_mysis_and_opens_its_conversation,
            the_palette_finds_a_theme_and_shows_it,
            the_palette_finds_a_setting_and_opens_it,
        )


async def test_the_palette_finds_a_message_that_you_sent(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.api.send("beta", "dig at the zircon belt")
        await stage.until(lambda: stage.view("beta").turns == 1)
        await search_palette(stage, "zircon")
        await stage.until(lambda: "message  dig at the zircon" in stage.text())
        await stage.press("enter", until=lambda: stage.shows(SearchScreen) and "beta" in stage.text())


async def test_theme_finds_a_file_that_was_added_while_running(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        folder = tmp_path / "config" / "themes"
        folder.mkdir(parents=True)
        nova = (themes.list_theme_folders(tmp_path)[0] / "nova.toml").read_text()
        (folder / "mine.toml").write_text(nova.replace('name = "nova"', 'name = "mine"'))
        await run(stage, "theme mine")
        await stage.until(lambda: stage.app.theme_spec.name == "mine")
