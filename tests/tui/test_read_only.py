"""`zoea run --read-only`: a cockpit that shows a running or a stored swarm and commands nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input, TextArea

from tests.swarm.harness import swarm
from tests.tui.cockpit import QUIET, Stage, answering, cockpit_over
from zoea.ipc.read_only import _READING, WATCHES, WatchedSwarm
from zoea.ipc.swarm_proxy import api_functions
from zoea.model.errors import OwnerError, ZoeaError
from zoea.runtime.run_options import RunOptions
from zoea.settings.paths import places
from zoea.tui import start
from zoea.tui.app import CockpitApp
from zoea.tui.commands.actions import ACTIONS
from zoea.tui.dialogs import command_line
from zoea.tui.dialogs.connect import ConnectDialog
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.screens.settings import SettingsScreen
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.inline_choice import InlineChoice


@asynccontextmanager
async def watching(folder: Path, *, writes_files: bool = True, **more: Any) -> AsyncIterator[Stage]:
    async with swarm(folder, answering("It is done"), settings=QUIET) as inner:
        await inner.commander.create("alpha", start=False)
        api = WatchedSwarm.over(inner.api)
        async with cockpit_over(
            api,
            inner.path,
            clock=inner.clock,
            inner=inner,
            is_owner=False,
            read_only_reason=WATCHES,
            writes_files=writes_files,
            places=places(configured=False),
            **more,
        ) as stage:
            yield stage


async def stored(stage: Stage) -> list[Any]:
    tables = await stage.swarm.rows("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'")
    return [(name, await stage.swarm.rows(f"SELECT * FROM {name}")) for name in (table["name"] for table in tables)]


def read_files(*folders: Path) -> dict[Path, bytes]:
    """Read what a person has there; the database, its folder and the log excepted."""
    paths = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in paths}


async def test_it_follows_the_running_swarm_and_refuses_every_command(tmp_path: Path) -> None:
    async with watching(tmp_path) as stage:
        await stage.swarm.commander.send("alpha", "Mine the belt")
        await stage.until(lambda: stage.view().turns == 1 and "It is done" in stage.text())
        assert "read-only" in stage.text()
        context = stage.app.action_context()
        assert [action.id for action in ACTIONS if action.commands_swarm and not action.why_not(context)] == []
        await stage.press("s", until=lambda: any("opened with --read-only" in notice for notice in stage.notices))
        with pytest.raises(OwnerError, match="read-only"):
            await stage.app.api.stop("alpha")
        with pytest.raises(OwnerError):
            await stage.app.api.shutdown()
        await stage.press("enter", until=lambda: stage.shows(FocusScreen) and "It is done" in stage.text())


async def test_no_line_of_the_prompt_and_no_action_changes_anything_that_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["send alpha hello", "send alpha", "broadcast hello", "broadcast-all hello", "new", "task", "start alpha"]
    lines += ["stop alpha", "stop-all", "delete alpha", "dismiss alpha", "pause alpha", "hold", "hold alpha", "again"]
    lines += ["withdraw alpha", "configure", "approvals", "answer", "mcp", "reload"]
    async with watching(tmp_path, size=(80, 24)) as stage:
        await stage.swarm.commander.send("alpha", "Mine the belt")
        await stage.until(lambda: stage.view().turns == 1)
        before, files = await stored(stage), read_files(places(configured=False).config)
        # Each refusal is one; to show and remove it, the whole screen is laid out twice.
        monkeypatch.setattr(stage.app, "_refresh_notifications", lambda: None)
        for line in [
            *lines,
            *(f"!{action.id}" for action in ACTIONS if action.id not in ("app.quit", "app.screenshot")),
        ]:
            depth = len(stage.app.screen_stack)
            with suppress(ZoeaError):
                stage.app.action_do(line[1:]) if line.startswith("!") else command_line.run(stage.app, line)
            await stage.pilot.pause()
            for key in ("y", "r", "p", "enter", "ctrl+r", "escape"):
                if len(stage.app.screen_stack) > depth or isinstance(stage.app.focused, Input | TextArea):
                    await stage.press(key)
            while len(stage.app.screen_stack) > depth:
                await stage.app.pop_screen()
        assert await stored(stage) == before
        assert read_files(places(configured=False).config) == files


async def test_settings_of_the_swarm_are_locked_and_those_of_the_cockpit_are_not(tmp_path: Path) -> None:
    async with watching(tmp_path) as stage:
        await stage.press("comma")
        screen = stage.screen
        assert isinstance(screen, SettingsScreen)
        await stage.until(lambda: screen._fields)
        locked = {field.path[0] for field in screen._fields.values() if field.locked == WATCHES}
        assert {"swarm", "budget", "llm", "tool"} <= locked
        assert "tui" not in locked
        files = read_files(places(configured=False).config)
        stage.app.push_screen(ConnectDialog())
        await stage.until(lambda: stage.shows(ConnectDialog))
        stage.one(InlineChoice).choose("embedded")  # needs no server that answers
        await stage.press("enter", until=lambda: "read-only" in stage.one(TextBlock, "#error").plain)
        assert read_files(places(configured=False).config) == files


def test_what_passes_are_methods_of_the_api() -> None:
    assert set(api_functions()) > _READING


async def test_a_stored_swarm_is_shown_and_none_is_made() -> None:
    where = places(configured=False)
    async with start.open_watched(where) as opened:
        assert (opened.read_only_reason, opened.is_owner, opened.runs) == (WATCHES, False, False)
    assert not where.database.exists()


def test_it_neither_hands_the_swarm_on_nor_offers_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[CockpitApp, tuple[object, ...]]] = []

    def shown(cockpit: CockpitApp, log: Path, *session: object) -> str:
        seen.append((cockpit, session))
        return "leave"

    monkeypatch.setattr(start, "show_cockpit", shown)
    assert start.start(RunOptions(read_only=True), places(configured=False)) == 0
    ((cockpit, session),) = seen
    assert session == ()
    assert cockpit.sandbox_opener is None


async def test_in_a_browser_it_changes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    async with watching(tmp_path / "swarm", writes_files=False) as stage:
        await stage.swarm.commander.send("alpha", "Mine the belt")
        await stage.until(lambda: stage.view().turns == 1)
        folders = here, places(configured=False).config
        before = read_files(*folders)
        await stage.press("S", until=lambda: "opened with --read-only" in "".join(stage.notices))
        await stage.press("enter", shows=FocusScreen)
        stage.notices.clear()
        await stage.press("e", until=lambda: "opened with --read-only" in "".join(stage.notices))
        await stage.press("escape")
        await stage.press("comma")
        screen = stage.screen
        assert isinstance(screen, SettingsScreen)
        await stage.until(lambda: screen._fields)
        assert {field.locked for field in screen._fields.values()} == {WATCHES}
        screen._themes.keep(next(name for name in stage.app.theme_specs if name != "nova"))
        await stage.until(lambda: any("until this cockpit ends" in notice for notice in stage.notices))
        assert read_files(*folders) == before
