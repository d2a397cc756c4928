"""The choice of a theme: preview, keeping, reloading of files."""

from __future__ import annotations

import tomllib
from pathlib import Path

from textual.widgets import Input, TextArea

from tests.tui.cockpit import Stage, cockpit
from tests.tui.test_settings import settings
from tests.tui.test_theme_files import contrast
from zoea.tui.screens.settings import SettingsScreen
from zoea.tui.theme import themes

NOVA = (themes.list_theme_folders(Path("nowhere"))[0] / "nova.toml").read_text()


async def choose(stage: Stage, screen: SettingsScreen, name: str) -> None:
    screen.sections.select("look")
    await stage.press("right")
    screen.fields.select(name)
    await stage.pilot.pause()


async def test_the_theme_under_the_cursor_is_previewed_and_esc_restores_the_old_one(tmp_path: Path) -> None:
    async with settings(tmp_path) as (stage, screen):
        await choose(stage, screen, "tide")
        assert stage.app.theme_spec.name == stage.app.theme == "tide"
        assert screen.styles.background.hex == stage.app.theme_spec.colours["background"].upper()
        await stage.press("escape")
        assert stage.app.theme_spec.name == stage.app.theme == "nova"


async def test_enter_keeps_the_theme_and_saves_the_choice(tmp_path: Path) -> None:
    async with settings(tmp_path) as (stage, screen):
        await choose(stage, screen, "abyss")
        await stage.press("enter", until=lambda: any("abyss is your theme now" in notice for notice in stage.notices))
        await stage.press("escape", "escape")
        assert stage.app.theme_spec.name == "abyss"
    assert tomllib.loads((tmp_path / "config" / "config.toml").read_text())["tui"] == {"theme": "abyss"}


async def test_another_section_ends_the_preview(tmp_path: Path) -> None:
    async with settings(tmp_path) as (stage, screen):
        await choose(stage, screen, "tide")
        await stage.pilot.click("#sections", offset=(5, 5))
        await stage.until(lambda: stage.app.theme_spec.name == "nova")


async def test_leaving_the_screen_ends_the_preview(tmp_path: Path) -> None:
    async with settings(tmp_path) as (stage, screen):
        await choose(stage, screen, "tide")
        stage.app.pop_screen()
        await stage.until(lambda: stage.app.theme_spec.name == "nova")


async def test_a_changed_theme_file_is_reloaded_and_a_broken_one_gives_one_message(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "themes"
    folder.mkdir(parents=True)
    mine = folder / "mine.toml"
    mine.write_text(NOVA.replace('name = "nova"', 'name = "mine"').replace("Nova", "Mine"))
    async with settings(tmp_path) as (stage, screen):
        await choose(stage, screen, "mine")
        screen.poll_themes()
        mine.write_text(mine.read_text().replace("#0A0A12", "#101018"))
        screen.poll_themes()
        assert stage.app.theme_spec.colours["background"] == "#101018"
        await stage.until(lambda: screen.styles.background.hex == "#101018")
        assert not stage.app.settings_watch.look()  # so no notice covers the message

        mine.write_text(mine.read_text().replace("#101018", "black").replace("dark = true", "dark = 3"))
        screen.poll_themes()
        assert not stage.app.settings_watch.look()
        await stage.pilot.pause()
        assert stage.app.theme_spec.colours["background"] == "#101018"
        about = " ".join(stage.text().replace("│", " ").split())
        assert "colours.background: 'black'" in about
        assert "dark must be true or false" in about


async def test_new_theme_files_are_listed_and_removed_ones_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "themes"
    folder.mkdir(parents=True)
    async with settings(tmp_path) as (stage, screen):
        await choose(stage, screen, "nova")
        screen.poll_themes()
        (folder / "mine.toml").write_text(NOVA.replace('name = "nova"', 'name = "mine"'))
        screen.poll_themes()
        assert "mine" in screen.fields.ids
        (folder / "mine.toml").unlink()
        screen.poll_themes()
        assert "mine" not in screen.fields.ids


async def test_theme_files_are_checked_once_a_second_during_the_choice(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "themes"
    folder.mkdir(parents=True)
    async with settings(tmp_path) as (stage, screen):
        await choose(stage, screen, "nova")
        (folder / "mine.toml").write_text(NOVA.replace('name = "nova"', 'name = "mine"'))
        await stage.until(lambda: "mine" in screen.fields.ids)


def test_a_theme_file_deleted_during_the_check_is_no_error(tmp_path: Path) -> None:
    folder = tmp_path / "themes"
    folder.mkdir()
    (folder / "gone.toml").symlink_to(tmp_path / "nowhere")
    assert all("gone" not in name for name, _, _ in themes.read_file_stamps(tmp_path))


async def test_selected_text_is_readable_in_every_theme(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("m", "escape", "slash")  # a prompt and an input beside the list
        for name in ("abyss", "ansi", "deuteranopia", "high-contrast", "nova", "tide"):
            stage.app.use_theme(name)
            await stage.pilot.pause()
            assert stage.app.theme == name
            parts = {
                "list": stage.screen.get_component_rich_style("screen--selection"),
                "input": stage.one(Input).get_component_rich_style("input--selection"),
                "prompt": stage.one(TextArea).get_component_rich_style("text-area--selection"),
            }
            for part, style in parts.items():
                assert style.color is not None, (name, part)
                assert style.bgcolor is not None, (name, part)
                front, back = style.color.get_truecolor().hex, style.bgcolor.get_truecolor().hex
                assert style.reverse or contrast(front, back) >= 4.5, f"{name}, {part}: {front} on {back}"
