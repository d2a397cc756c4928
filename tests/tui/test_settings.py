"""The settings form: values with origin, writing, errors."""

from __future__ import annotations

import re
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.fakes.no_connections import NoConnections
from tests.tui.cockpit import Stage, cockpit, take_steps
from tests.tui.hostile_texts import HOSTILE, LONG, is_harmless
from zoea.model.swarm_api import ReloadReport
from zoea.runtime.model_lists import ModelLists
from zoea.settings.fields import Page, page_of
from zoea.settings.layers import LoadedSettings, load
from zoea.settings.paths import Places
from zoea.settings.schema import Settings
from zoea.tui.screens.help import HelpScreen
from zoea.tui.screens.settings import KeyCaptureDialog, SettingsScreen
from zoea.tui.state.settings_form import SettingField, groups, parsed
from zoea.tui.widgets.status_bars import KeyFooter

OWN = """\
# my settings
[swarm]
max_myses = 4  # few

[provider.local]
type = "openai"
base_url = "http://127.0.0.1:1/v1"

[provider.local.headers]
X = "Bearer secret-of-mine"
"""


class Step(Protocol):
    """A step in the settings, over a folder with their file."""

    __name__: str

    async def __call__(self, stage: Stage, screen: SettingsScreen, folder: Path) -> None: ...


GROUP_KEYS = {"keys": "tui.keys"}


@asynccontextmanager
async def settings(folder: Path, own: str = OWN, **more: Any) -> AsyncIterator[tuple[Stage, SettingsScreen]]:
    """Open the settings over a cockpit with `own` in its config.toml."""
    config = folder / "config"
    config.mkdir(exist_ok=True)
    (config / "config.toml").write_text(own)
    async with cockpit(folder, names=("alpha",), config=config, **more) as stage:
        yield stage, await open_settings(stage)


async def open_settings(stage: Stage) -> SettingsScreen:
    await stage.press("comma")
    screen = stage.screen
    assert isinstance(screen, SettingsScreen)
    await stage.until(lambda: screen.sections.ids or screen.fields.plain)
    await stage.pilot.pause()
    return screen


async def take_settings_steps(stage: Stage, folder: Path, *steps: Step) -> None:
    """Take steps in one cockpit. For each the settings are opened with `OWN` in the file."""
    for step in steps:
        (folder / "config" / "config.toml").write_text(OWN)
        stage.app.settings_watch.mark_applied()
        await take_steps(stage, partial(open_and_take, step=step, folder=folder))


async def open_and_take(stage: Stage, step: Step, folder: Path) -> None:
    try:
        await step(stage, await open_settings(stage), folder)
    except Exception as error:
        error.add_note(f"in the step {step.__name__}")
        raise


async def go(stage: Stage, screen: SettingsScreen, group: str, key: str = "") -> SettingField | None:
    """Put the cursor on the first field of a group, or on one of them."""
    first = next(field for field in screen._fields.values() if field.key.startswith(f"{GROUP_KEYS.get(group, group)}."))
    field = screen._fields[key] if key else first
    screen.sections.focus()
    screen.sections.select(field.page)
    await stage.pilot.pause()
    await stage.press("enter")
    screen.fields.select(field.key)
    await stage.pilot.pause()
    return screen.field


async def change(stage: Stage, screen: SettingsScreen, text: str) -> None:
    """Type a value over the old one, and enter it."""
    await stage.press("enter")
    assert screen.value.has_focus
    screen.value.value = text
    await stage.press("enter", until=lambda: screen.note[1])
    await stage.pilot.pause()


def on_disk(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "config" / "config.toml").read_text())


def loaded(folder: Path) -> LoadedSettings:
    config = folder / "config"
    config.mkdir(exist_ok=True)
    return load(Places(folder, config, folder), env={})


def test_settings_of_the_sandbox_world_are_shown_where_it_runs_or_a_file_sets_one(tmp_path: Path) -> None:
    def shows_world() -> bool:
        return "world" in {group.id for group in groups(loaded(tmp_path))}

    assert not shows_world()
    file = tmp_path / "config" / "config.toml"
    file.write_text("[world]\nsystems = 50\n")
    assert shows_world()
    file.unlink()
    (tmp_path / "reef.db").touch()
    assert shows_world()


def test_every_setting_of_the_schema_is_in_the_form(tmp_path: Path) -> None:
    (tmp_path / "reef.db").touch()  # with those of the sandbox world
    keys = {field.key for group in groups(loaded(tmp_path)) for field in group.fields}
    for name, section in Settings():
        if isinstance(section, dict):
            continue
        inner = [f"{name}.{key}" for key, _ in section] if hasattr(section, "model_dump") else [name]
        assert set(inner) - {"tui.theme", "tui.keys"} <= keys


def test_what_the_form_shows_is_what_it_would_write(tmp_path: Path) -> None:
    values = Settings().model_dump()
    for group in groups(loaded(tmp_path)):
        for field in group.fields:
            if field.kind == "key" or field.locked:
                continue
            tree: Any = parsed(field, field.text)
            for part in reversed(field.path):
                tree = {part: tree}
            node: Any = Settings.model_validate(tree).model_dump()
            held: Any = values
            for part in field.path:
                node, held = node[part], held[part]
            assert node == held


async def test_values_stand_with_their_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOEA_SWARM__MAX_HOPS", "7")
    async with settings(tmp_path) as (stage, screen):
        await go(stage, screen, "swarm")
        lines = screen.fields.plain.splitlines()
        own = next(line for line in lines if line.startswith("Myses at most"))
        assert "4" in own
        assert own.endswith("config.toml:3")
        assert any("7" in line and line.endswith("$ZOEA_SWARM__MAX_HOPS") for line in lines)
        assert sum(line.endswith("default") for line in lines) > 5


async def test_a_short_value_is_shown_before_its_long_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOEA_SWARM__DISCOVER", "false")
    async with settings(tmp_path, size=(80, 24)) as (stage, screen):
        await go(stage, screen, "swarm", "swarm.discover")
        line = next(line for line in screen.fields.plain.splitlines() if line.startswith("Look for a model"))
        assert "false  $ZOEA_SWARM__" in line
        assert line.endswith("…")


async def test_a_value_that_is_entered_is_written_and_comments_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def reload(_: NoConnections) -> ReloadReport:
        return ReloadReport(waiting=("swarm.max_myses",))

    monkeypatch.setattr(NoConnections, "reload", reload)
    async with settings(tmp_path) as (stage, screen):
        await go(stage, screen, "swarm", "swarm.max_myses")
        await change(stage, screen, "9")
        assert on_disk(tmp_path)["swarm"]["max_myses"] == 9
        assert "# my settings" in (tmp_path / "config" / "config.toml").read_text()
        assert "max_myses = 9  # few" in (tmp_path / "config" / "config.toml").read_text()
        assert "written; it applies when the swarm is opened again" in stage.text()
        assert screen.fields.has_focus


async def test_a_value_that_is_read_at_once_with_the_key_that_opens_its_input_is_not_entered(tmp_path: Path) -> None:
    async with settings(tmp_path) as (stage, screen):
        await go(stage, screen, "keys", 'tui.keys."app.help"')
        before = on_disk(tmp_path)
        await stage.read_at_once(" ^k\r")
        assert screen.value.has_focus
        assert "The last key does not count" in " ".join(stage.notices)
        assert on_disk(tmp_path) == before
        screen.value.value = "^k"
        await stage.read_at_once("\r")
        await stage.until(lambda: on_disk(tmp_path) != before)


async def test_a_value_written_in_the_form_is_no_change_to_apply(tmp_path: Path) -> None:
    async with settings(tmp_path) as (stage, screen):
        await go(stage, screen, "swarm", "swarm.max_myses")
        await change(stage, screen, "9")
        stage.app.tick()
        await stage.pilot.pause()
        assert "settings changed" not in stage.text()
        (tmp_path / "config" / "config.toml").write_text("[nudge]\nenabled = false\n")
        stage.app.tick()
        await stage.until(lambda: "changed: f5 loads" in stage.text())


async def a_wrong_value_is_said_in_place_and_nothing_is_written(
    stage: Stage, screen: SettingsScreen, folder: Path
) -> None:
    await go(stage, screen, "swarm", "swarm.max_myses")
    await change(stage, screen, "lots")
    assert on_disk(folder)["swarm"]["max_myses"] == 4
    lines = screen.fields.plain.splitlines()
    assert lines[0] == "SWARM"
    assert "valid integer" in lines[2]
    assert screen.value.value == "lots"
    await stage.press("escape")
    assert screen.fields.has_focus
    assert "valid integer" not in stage.text()


async def a_value_that_contradicts_another_is_refused(stage: Stage, screen: SettingsScreen, folder: Path) -> None:
    await go(stage, screen, "budget", "budget.token_budget_per_task")
    await change(stage, screen, "2000")
    assert "is below budget.token_budget_per_agent" in stage.text()
    assert "budget" not in on_disk(folder)


async def test_a_value_overridden_by_another_layer_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOEA_SWARM__MAX_HOPS", "7")
    async with settings(tmp_path) as (stage, screen):
        await go(stage, screen, "swarm", "swarm.max_hops")
        await change(stage, screen, "2")
        assert "written, but ZOEA_SWARM__MAX_HOPS overrides it" in stage.text()


async def enter_and_space_step_through_few_options(stage: Stage, screen: SettingsScreen, folder: Path) -> None:
    await go(stage, screen, "log", "log.level")
    await stage.press("enter", until=lambda: on_disk(folder).get("log") == {"level": "warning"})
    await stage.until(lambda: screen.field and screen.field.text == "warning")
    await stage.press("space", until=lambda: on_disk(folder).get("log") == {"level": "error"})


async def a_persons_own_value_is_removed(stage: Stage, screen: SettingsScreen, folder: Path) -> None:
    await go(stage, screen, "swarm", "swarm.max_myses")
    await stage.press("ctrl+r", until=lambda: screen.field and screen.field.text == "16")
    assert "max_myses" not in on_disk(folder)["swarm"]
    assert "taken out" in stage.text()


async def test_reduced_motion_and_bell_count_at_once(tmp_path: Path) -> None:
    async with settings(tmp_path, calm=False) as (stage, screen):
        await go(stage, screen, "tui", "tui.reduced_motion")
        await stage.press("enter", until=lambda: stage.app.reduced_motion)
        screen.fields.select("tui.bell")
        await stage.pilot.pause()
        await stage.press("enter", until=lambda: not stage.app.early.bell)


async def test_a_key_is_moved_by_pressing_it_and_a_clash_names_both(tmp_path: Path) -> None:
    async with settings(tmp_path) as (stage, screen):
        await go(stage, screen, "keys", 'tui.keys."app.help"')
        await stage.press("enter")
        assert stage.shows(KeyCaptureDialog)
        for taken in ("b", "q", "tab", "X"):
            await stage.press(taken)
            assert stage.shows(KeyCaptureDialog), taken
        assert "swarm.stop-all" in stage.text()
        await stage.press("escape")
        assert stage.shows(SettingsScreen)
        assert "keys" not in on_disk(tmp_path).get("tui", {})
        await stage.press("enter", "f9", until=lambda: screen.note[1])
        assert on_disk(tmp_path)["tui"] == {"keys": {"app.help": "f9"}}
        await stage.press("f9")
        assert isinstance(stage.screen, HelpScreen)


async def test_a_key_can_be_written_by_its_name_too(tmp_path: Path) -> None:
    async with settings(tmp_path) as (stage, screen):
        await go(stage, screen, "keys", 'tui.keys."app.help"')
        await stage.press("space")
        assert screen.value.has_focus
        screen.value.value = "^k"
        await stage.press("enter", until=lambda: screen.note[1])
        assert on_disk(tmp_path)["tui"] == {"keys": {"app.help": "^k"}}


async def secrets_and_tables_are_not_shown_for_change(stage: Stage, screen: SettingsScreen, folder: Path) -> None:
    await go(stage, screen, "provider.local", "provider.local.headers")
    assert "secret-of-mine" not in stage.text()
    await stage.press("enter")
    assert not screen.value.has_focus
    assert any("config.toml" in notice for notice in stage.notices)


async def an_optional_number_may_be_set_and_emptied(stage: Stage, screen: SettingsScreen, folder: Path) -> None:
    await go(stage, screen, "provider.local", "provider.local.rate")
    await change(stage, screen, "2.5")
    assert on_disk(folder)["provider"]["local"]["rate"] == 2.5
    await change(stage, screen, "")
    assert "rate" not in on_disk(folder)["provider"]["local"]


async def test_an_invalid_settings_file_reports_all_its_problems(tmp_path: Path) -> None:
    async with settings(tmp_path, "[swarm]\nmax_mises = 1\n[log]\nlevel = 3\n") as (stage, screen):
        assert "max_mises" in screen.fields.plain
        assert "log.level" in screen.fields.plain
        await stage.press("escape")
        assert not isinstance(stage.screen, SettingsScreen)


async def esc_goes_one_step_out_each_time(stage: Stage, screen: SettingsScreen, folder: Path) -> None:
    await go(stage, screen, "swarm")
    await stage.press("enter")
    assert screen.value.has_focus
    for wanted in (screen.fields, screen.sections):
        await stage.press("escape")
        assert wanted.has_focus
    await stage.press("escape")
    assert not isinstance(stage.screen, SettingsScreen)


async def left_and_right_move_between_sections_and_fields(stage: Stage, screen: SettingsScreen, folder: Path) -> None:
    screen.sections.select("limits")
    await stage.press("right")
    assert screen.fields.has_focus
    await stage.press("left")
    assert screen.sections.has_focus


async def the_mouse_chooses_sections_and_changes_values(stage: Stage, screen: SettingsScreen, folder: Path) -> None:
    place = screen.sections.ids.index("system")
    await stage.pilot.click("#sections", offset=(5, 1 + place))
    await stage.pilot.pause()
    screen.fields.select("log.level")
    await stage.pilot.pause()
    row = screen.fields.place - int(screen.fields.scroll_offset.y)
    await stage.pilot.click("#fields", offset=(5, 1 + row), times=2)
    await stage.until(lambda: on_disk(folder).get("log") == {"level": "warning"})
    line = stage.one(KeyFooter)
    await stage.pilot.click(KeyFooter, offset=(line.text.index("back to default"), 0))
    await stage.until(lambda: on_disk(folder).get("log") == {})


async def test_hostile_values_are_shown_harmlessly(tmp_path: Path) -> None:
    own = "[wait]\nuntil_fields = [" + ", ".join(f"'''{text}'''" for text in HOSTILE if "\x1b" not in text) + "]\n"
    own += f'for_fields = ["{LONG[:5000]}\\u001b[2J"]\n'
    own = "".join(char for char in own if char.isprintable() or char == "\n")
    async with settings(tmp_path, own, size=(80, 24)) as (stage, screen):
        for size in ((80, 24), (120, 40), (200, 60)):
            await stage.pilot.resize_terminal(*size)
            await go(stage, screen, "wait", "wait.for_fields")
            assert is_harmless(stage.text()), size
            assert "[/] [bold]list[int]" in screen.fields.plain, size


async def a_model_that_its_server_does_not_list_is_kept_only_by_a_second_enter(
    stage: Stage, screen: SettingsScreen, folder: Path
) -> None:
    given = loaded(folder).settings.provider["local"]
    lists = ModelLists(stage.app.places)
    lists.record(given, ["reef-1"])
    await go(stage, screen, "provider.local", "provider.local.model")
    await change(stage, screen, "reef-2")
    assert "lists no model 'reef-2'; the nearest is reef-1" in screen.note[1]
    assert "model" not in on_disk(folder)["provider"]["local"]
    await stage.press("enter", until=lambda: "model" in on_disk(folder)["provider"]["local"])
    assert on_disk(folder)["provider"]["local"]["model"] == "reef-2"
    found = lists.find(given)
    assert found is not None
    assert found.kept == ("reef-2",)


def test_every_setting_is_on_one_of_five_pages(tmp_path: Path) -> None:
    fields = [field for group in groups(loaded(tmp_path)) for field in group.fields]
    sizes = {page: sum(field.page is page and field.kind != "key" for field in fields) for page in Page}
    assert all(4 <= size <= 45 for size in sizes.values()), sizes
    for info in Settings.model_fields.values():
        assert page_of(info) is not None
    pages = {field.key: field.page for field in fields}
    assert (pages["swarm.max_myses"], pages["swarm.default_provider"]) == (Page.LIMITS, Page.MODEL)
    assert {page for key, page in pages.items() if key.startswith("tui.")} == {Page.LOOK}


async def five_pages_and_all_of_them_stand_on_the_left(stage: Stage, screen: SettingsScreen, folder: Path) -> None:
    assert screen.sections.ids == ["model", "agents", "limits", "look", "system", "all", "+"]
    assert "PROVIDERS · LOCAL" in screen.fields.plain
    await stage.press("down")
    assert "NUDGES" in screen.fields.plain
    assert "PROVIDERS" not in screen.fields.plain
    screen.sections.select("all")
    await stage.until(lambda: {"provider.local.type", "nudge.enabled", "log.level"} <= set(screen.fields.ids))


async def words_find_settings_of_all_pages_and_esc_leads_back(
    stage: Stage, screen: SettingsScreen, folder: Path
) -> None:
    await stage.press("slash")
    await stage.write("idle nudge")
    await stage.until(lambda: screen.fields.ids[0] == "nudge.enabled")
    assert "ALL WITH idle nudge" in stage.text()
    assert len(screen.fields.ids) < 6
    await stage.press("enter")
    assert screen.fields.has_focus
    await stage.press("enter", until=lambda: on_disk(folder).get("nudge") == {"enabled": False})
    await stage.press("escape")
    assert "provider.local.type" in screen.fields.ids
    await stage.press("slash")
    await stage.write("no such words")
    await stage.until(lambda: "No setting has these words" in stage.text())
    await stage.press("escape", "escape", until=lambda: not isinstance(stage.screen, SettingsScreen))


async def the_footer_lists_no_key_that_does_nothing_here(stage: Stage, screen: SettingsScreen, folder: Path) -> None:
    assert "back to default" not in stage.one(KeyFooter).text
    await stage.press("ctrl+r")
    assert on_disk(folder)["swarm"] == {"max_myses": 4}
    await go(stage, screen, "swarm", "swarm.max_hops")
    assert "back to default" not in stage.one(KeyFooter).text
    await stage.press("ctrl+r")
    assert "has no value of yours" in stage.notices[-1]
    await go(stage, screen, "swarm", "swarm.max_myses")
    await stage.until(lambda: "back to default" in stage.one(KeyFooter).text)
    screen.sections.focus()
    await stage.until(lambda: "enter open" in stage.one(KeyFooter).text)


async def test_the_footer_names_the_filter_and_no_answer_to_a_question_that_does_not_wait(tmp_path: Path) -> None:
    async with settings(tmp_path, size=(60, 24)) as (stage, screen):
        await go(stage, screen, "swarm", "swarm.max_hops")
        for width in (60, 80, 200):
            await stage.pilot.resize_terminal(width, 24)
            await stage.until(lambda: "/ filter" in stage.one(KeyFooter).text)
            assert "approvals" not in stage.one(KeyFooter).text, width


async def the_page_of_all_settings_opens_at_the_theme_in_use(
    stage: Stage, screen: SettingsScreen, folder: Path
) -> None:
    screen.sections.select("all")
    await stage.until(lambda: "tide" in screen.fields.ids)
    await stage.press("enter")
    assert screen.fields.has_focus
    assert screen.fields.chosen == stage.app.theme_spec.name == "nova"


async def a_time_is_shown_with_its_unit_and_typed_without(stage: Stage, screen: SettingsScreen, folder: Path) -> None:
    await go(stage, screen, "llm", "llm.timeout")
    await stage.until(lambda: re.search(r"First token within +120 s", screen.fields.plain))
    assert screen.value.value == "120"
    await change(stage, screen, "2m")
    assert re.search(r"First token within +120 s", screen.fields.plain)
    assert on_disk(folder)["llm"] == {"timeout": "2m"}


async def test_a_value_is_typed_in_sight_at_60_columns(tmp_path: Path) -> None:
    async with settings(tmp_path, size=(60, 16)) as (stage, screen):
        assert "Limits" in stage.text()
        for key in ("swarm.max_myses", "swarm.inherit_broadcast_hours", "llm.timeout", "budget.swarm_per_day"):
            await go(stage, screen, key.partition(".")[0], key)
            await stage.press("enter")
            await stage.pilot.pause()
            assert screen.editor.content_region.contains_region(screen.value.region), key
            await stage.press("escape")
        assert "Limits" not in stage.text()
        await stage.press("escape")
        assert screen.sections.has_focus
        assert "Limits" in stage.text()


async def what_is_typed_after_a_refused_key_runs_no_command(stage: Stage, screen: SettingsScreen, folder: Path) -> None:
    for refused in ("enter", "m", "n"):
        await go(stage, screen, "provider.local", "provider.local.headers")
        await stage.press(refused)
        await stage.pilot.press_in_a_burst(*"xXlqh")
        await stage.pilot.pause()
        assert stage.screen is screen, refused
        assert not (await stage.api.view()).held, refused


async def test_two_quick_changes_are_both_written_also_where_the_screen_is_left(tmp_path: Path) -> None:
    async with settings(tmp_path, calm=False) as (stage, screen):
        fields = screen._fields
        screen._save(fields["swarm.max_myses"], "7")
        screen._save(fields["tui.reduced_motion"], "true")
        assert screen.holds_keys
        stage.app.pop_screen()
        await stage.until(lambda: not stage.app.writes.waiting)
        assert on_disk(tmp_path)["swarm"]["max_myses"] == 7
        assert on_disk(tmp_path)["tui"]["reduced_motion"] is True
        assert stage.app.early.reduced_motion


async def test_values_are_changed_with_keys_and_with_the_mouse(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    async with cockpit(tmp_path, names=("alpha",), config=tmp_path / "config") as stage:
        await take_settings_steps(
            stage,
            tmp_path,
            a_wrong_value_is_said_in_place_and_nothing_is_written,
            a_value_that_contradicts_another_is_refused,
            enter_and_space_step_through_few_options,
            a_persons_own_value_is_removed,
            secrets_and_tables_are_not_shown_for_change,
            an_optional_number_may_be_set_and_emptied,
            esc_goes_one_step_out_each_time,
            left_and_right_move_between_sections_and_fields,
            the_mouse_chooses_sections_and_changes_values,
            a_model_that_its_server_does_not_list_is_kept_only_by_a_second_enter,
            five_pages_and_all_of_them_stand_on_the_left,
            words_find_settings_of_all_pages_and_esc_leads_back,
            the_footer_lists_no_key_that_does_nothing_here,
            the_page_of_all_settings_opens_at_the_theme_in_use,
            a_time_is_shown_with_its_unit_and_typed_without,
            what_is_typed_after_a_refused_key_runs_no_command,
        )
