"""The welcome screen: found models and keys, and the ways to start."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.screen import Screen
from textual.widgets import Input

from tests.fakes.llm_clock import HandClock
from tests.fakes.ollama_server import Model, OllamaServer
from tests.fakes.swarm import FakeSwarm
from tests.tui.cockpit import START, Stage, cockpit, cockpit_over
from tests.tui.hostile_texts import HOSTILE, is_harmless
from tests.tui.idle_pilot import IdlePilot
from zoea.agents.agent_launch import KnownAgent
from zoea.llm import discovery
from zoea.llm.discovery import ProbeResult, ProbeStatus, SourceOrigin, UsualPort
from zoea.model.errors import StoreError
from zoea.model.request import ModelInfo
from zoea.runtime.model_discovery import ModelConnection
from zoea.runtime.run_options import RunOptions, StartOptions
from zoea.settings.paths import Places, places
from zoea.store.store import Store
from zoea.tui import start
from zoea.tui.app import CockpitApp
from zoea.tui.dialogs import connect
from zoea.tui.dialogs.connect import ConnectDialog
from zoea.tui.dialogs.new_mysis import NewMysisDialog
from zoea.tui.screens import welcome as ways
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.screens.help import HelpScreen
from zoea.tui.screens.welcome import WelcomeScreen
from zoea.tui.state.drafts import LAST_CHOICES
from zoea.tui.state.swarm_connection import OpenSwarm
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.inline_choice import InlineChoice
from zoea.tui.widgets.line_list import PickList
from zoea.tui.widgets.model_field import ModelField
from zoea.tui.widgets.status_bars import KeyFooter


@asynccontextmanager
async def welcome(folder: Path, *, size: tuple[int, int] = (120, 40), is_owner: bool = True) -> AsyncIterator[Stage]:
    """The welcome over a swarm without myses, which can be opened with a world."""
    config = folder / "config"
    config.mkdir(exist_ok=True)
    # Without a database the screen says so, over as many of its lines as the path is long.
    await (await Store.open(folder / "zoea.db", clock_now=lambda: START)).close()
    fake = FakeSwarm()

    @asynccontextmanager
    async def with_world() -> AsyncIterator[OpenSwarm]:
        yield OpenSwarm(FakeSwarm(), folder / "zoea.db", True, "reef-run")

    async with cockpit_over(
        fake, folder / "zoea.db", size=size, config=config, is_owner=is_owner, sandbox_opener=with_world
    ) as stage:
        await stage.until(lambda: shows(stage, WelcomeScreen))
        await stage.until(lambda: "config.toml" in stage.text())
        await stage.pilot.pause()
        yield stage


def shows(stage: Stage, kind: type[Screen[Any]]) -> bool:
    return isinstance(stage.screen, kind)


async def test_it_opens_in_an_empty_swarm_and_closes_once_there_is_a_mysis(tmp_path: Path) -> None:
    async with welcome(tmp_path) as stage:
        assert "There is no mysis yet." in stage.text()
        await stage.api.create("alpha", start=False)
        await stage.until(lambda: shows(stage, DashboardScreen))


async def test_it_does_not_open_in_a_swarm_with_myses(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        assert shows(stage, DashboardScreen)
        await stage.press("f1")
        assert shows(stage, WelcomeScreen)
        assert "There are myses already" in stage.text()
        await stage.press("escape")
        assert shows(stage, DashboardScreen)


async def test_a_long_line_is_shown_in_full_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, *others = ways.WAYS
    monkeypatch.setattr(
        ways, "WAYS", ((first[0], "Five agents mine in Reef, a small world: no model, no cost"), *others)
    )
    async with welcome(tmp_path, size=(80, 24)) as stage:
        assert "Five agents mine in Reef, a small" in stage.text()
        assert "Five agents mine in Reef, a small world: no model, no cost" in stage.text()
        await stage.press("j")
        assert "no model, no cost" not in stage.text()
        await stage.press("k")
        await stage.pilot.resize_terminal(120, 40)
        await stage.until(lambda: stage.text().count("no model, no cost") == 1)


async def test_the_frame_is_whole_in_a_small_terminal(tmp_path: Path) -> None:
    async with welcome(tmp_path, size=(80, 24)) as stage:
        await stage.pilot.resize_terminal(60, 16)
        await stage.until(lambda: sum(line.startswith("╰") for line in stage.text().splitlines()) == 1)


async def test_in_a_git_repository_work_on_it_is_the_first_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with welcome(tmp_path) as stage:
        assert "work on this repo" not in stage.text()
        assert "work on" not in stage.one(KeyFooter).text
        await stage.press("r")
        assert "not started in a git repository" in stage.notices[-1]
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    (tmp_path / "shop" / "source").mkdir()
    monkeypatch.chdir(tmp_path / "shop" / "source")
    async with welcome(tmp_path) as stage:
        assert "Agents change shop, each in a worktree" in stage.text()
        assert stage.one(PickList).chosen == "welcome.repository"
        assert "r work on this repo" in stage.one(KeyFooter).text
        await stage.press("enter", until=lambda: shows(stage, NewMysisDialog))
        await stage.until(lambda: f"of {tmp_path / 'shop'}" in stage.one(TextBlock, "#effect").plain)
        await stage.press("escape", "r", until=lambda: shows(stage, NewMysisDialog))


async def test_keys_of_vendors_are_named_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-mine")
    async with welcome(tmp_path) as stage:
        assert "OPENAI_API_KEY is set" in stage.text()
        assert "sk-secret-of-mine" not in stage.text()
        assert "no settings file: all defaults apply" in stage.text()


async def test_model_servers_are_shown_as_they_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZOEA_SWARM__DISCOVER")
    for limit in ("CONNECT_S", "LOCAL_DEADLINE_S"):  # a busy machine may take longer than a person is let wait
        monkeypatch.setattr(discovery, limit, 20.0)
    async with OllamaServer() as server, welcome(tmp_path) as stage:
        server.models = [Model("qwen3:8b"), Model("[/]\x1b[2J")]
        stage.app.discovery_ports = (UsualPort("Ollama", int(server.url.rpartition(":")[2]), "ollama"),)
        await stage.press("escape", "f1", shows="has qwen3:8b, [/]")
        assert is_harmless(stage.text())


async def test_one_key_starts_five_miners_in_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with welcome(tmp_path) as stage:
        title = stage.one(TextBlock, "#title")
        said: list[str] = []
        monkeypatch.setattr(title, "put", lambda lines: said.append(str(lines)))
        await stage.press("s", until=lambda: shows(stage, DashboardScreen) and len(stage.app.feed.myses) == 5)
        assert said
        assert not [text for text in said if "There are myses already" in text], (
            "five are on their way: nobody is sent away"
        )
        views = list(stage.app.feed.myses.values())
        assert {view.template for view in views} == {"miner"}
        assert {view.provider for view in views} == {"autopilot"}
        await stage.until(lambda: {view.state for view in stage.app.feed.myses.values()} == {"running"})


async def test_a_sandbox_that_does_not_open_says_why_and_the_welcome_stays(tmp_path: Path) -> None:
    async with welcome(tmp_path) as stage:

        @asynccontextmanager
        async def broken() -> AsyncIterator[OpenSwarm]:
            if isinstance(stage.screen, WelcomeScreen):
                raise StoreError("the disk is full")
            yield OpenSwarm(FakeSwarm(), tmp_path, True)

        stage.app.sandbox_opener = broken
        await stage.press("s", until=lambda: any("the disk is full" in notice for notice in stage.notices))
        assert shows(stage, WelcomeScreen)


async def test_an_attached_cockpit_cannot_open_the_sandbox_and_says_why(tmp_path: Path) -> None:
    async with welcome(tmp_path, is_owner=False) as stage:
        assert "start it there with --world reef" in stage.text()
        await stage.press("s")
        assert any("--world reef" in notice for notice in stage.notices)


async def test_one_key_creates_a_mysis_by_hand(tmp_path: Path) -> None:
    async with welcome(tmp_path) as stage:
        await stage.press("n", until=lambda: shows(stage, NewMysisDialog))
        await stage.press("enter", until=lambda: shows(stage, DashboardScreen))
        assert len(stage.app.feed.myses) == 1


async def test_the_form_stays_open_while_its_first_mysis_appears(tmp_path: Path) -> None:
    async with welcome(tmp_path) as stage:
        await stage.press("n", until=lambda: shows(stage, NewMysisDialog))
        await stage.api.create("alpha", start=False)
        await stage.until(lambda: stage.has("alpha"))
        await stage.pilot.pause()
        assert shows(stage, NewMysisDialog)
        await stage.press("escape", until=lambda: shows(stage, DashboardScreen))


async def test_a_local_model_is_found_and_enter_creates_a_mysis_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "qwen.gguf").write_bytes(b"GGUF" + bytes(20))
    async with welcome(tmp_path) as stage:
        await stage.until(lambda: "on this machine; enter creates a mysis" in stage.text())
        await stage.press(*["j"] * 4)
        assert stage.one(PickList).chosen == "local:qwen"
        await stage.press("enter", until=lambda: shows(stage, NewMysisDialog))
        await stage.until(lambda: bool(stage.one(ModelField).value))
        assert stage.one(ModelField).value == "qwen"


async def test_an_agent_on_the_path_is_named_and_enter_creates_a_mysis_that_it_plays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with welcome(tmp_path, size=(80, 24)) as stage:
        assert "agents            none on your PATH; `zoea agents list` names them" in stage.text()
    for name in ("opencode", "copilot"):
        (tmp_path / name).write_text("#!/bin/sh\ntouch started\n")
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(KnownAgent, "program", property(lambda self: shutil.which(self.command)))
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "shop")
    async with welcome(tmp_path, size=(80, 24)) as stage:
        assert "OpenCode          your agent; enter creates a mysis that it plays" in stage.text()
        assert "GitHub Copilot C… your agent" in stage.text()
        assert "Codex" not in stage.text()
        stage.one(PickList).select("agent:opencode")
        await stage.press("enter", until=lambda: shows(stage, NewMysisDialog))
        await stage.until(lambda: stage.one(InlineChoice, "#provider").value == "agent:opencode")
        assert stage.one(Input, "#on").value == str(tmp_path / "shop")
    assert not (tmp_path / "shop" / "started").exists()


async def test_the_provider_of_the_command_line_is_named(tmp_path: Path) -> None:
    async with welcome(tmp_path) as stage:
        stage.app.new_myses = StartOptions(provider="embedded", model="qwen")
        await stage.pilot.resize_terminal(110, 40)
        await stage.until(lambda: "New myses use embedded with qwen." in stage.text())


async def test_one_key_for_help(tmp_path: Path) -> None:
    async with welcome(tmp_path) as stage:
        await stage.press("question_mark")
        assert shows(stage, HelpScreen)
        assert "ON THE WELCOME SCREEN" in stage.text()


async def test_a_way_is_chosen_with_the_mouse(tmp_path: Path) -> None:
    async with welcome(tmp_path) as stage:
        row = next(y for y, line in enumerate(stage.text().splitlines()) if "connect a model" in line)
        await stage.pilot.click(offset=(40, row), times=2)
        await stage.until(lambda: shows(stage, ConnectDialog))


def refuse_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server answers, so that no test asks a vendor."""

    async def probe(where: Places, connection: ModelConnection) -> ProbeResult:
        return ProbeResult(
            connection.name, connection.type, SourceOrigin.SETTINGS, ProbeStatus.DOWN, detail="no network"
        )

    monkeypatch.setattr(connect, "probe_connection", probe)


async def test_a_model_is_connected_its_key_stored_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_connections(monkeypatch)
    async with welcome(tmp_path) as stage:
        stage.app.drafts.keep(LAST_CHOICES, '{"provider": "autopilot"}')
        await stage.press("c")
        stage.one(InlineChoice).choose("anthropic")
        for field, text in (("name", "mine"), ("model", "m1"), ("key", "sk-secret")):
            stage.one(Input, f"#{field}").value = text
        await stage.pilot.pause()
        assert "sk-secret" not in stage.text()
        await stage.press("enter")
        await stage.until(lambda: "Press enter again to keep the connection" in stage.one(TextBlock, "#error").plain)
        await stage.press("enter", until=lambda: shows(stage, WelcomeScreen))
        written = tomllib.loads((tmp_path / "config" / "config.toml").read_text())
        assert written["provider"] == {"mine": {"type": "anthropic", "model": "m1", "api_key": "file:mine"}}
        assert written["swarm"] == {"default_provider": "mine"}
        await stage.until(lambda: "anthropic, m1: set up in your settings" in stage.text())
        assert stage.one(PickList).chosen == "welcome.new"
        assert stage.app.drafts.of(LAST_CHOICES) == "", "the next mysis uses what was connected"
        # The swarm was opened anew, so that the next mysis uses it.
        await stage.until(lambda: stage.app.opened is not None and stage.app.feed.view is not None)


async def test_the_name_of_a_connected_model_fills_empty_fields_in_and_keeps_its_key(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(
        '[provider.lab]\ntype = "anthropic"\nbase_url = "http://127.0.0.1:1"\nmodel = "m1"\napi_key = "env:LAB_KEY"\n'
    )
    async with welcome(tmp_path) as stage:
        await stage.press("c")
        await stage.write("la")
        await stage.press("tab")
        assert stage.one(Input, "#address").value == ""
        await stage.press("shift+tab", "end")
        await stage.write("b")
        await stage.press("tab")
        filled = stage.app.screen
        assert isinstance(filled, ConnectDialog)
        assert filled.connection == ModelConnection("lab", "anthropic", "http://127.0.0.1:1", "m1", "env:LAB_KEY")
        await stage.press("escape", "c")
        stage.one(Input, "#address").value = "http://127.0.0.1:2"
        await stage.write("lab")
        await stage.press("tab")
        typed = stage.app.screen
        assert isinstance(typed, ConnectDialog)
        assert typed.connection == ModelConnection("lab", "openai", "http://127.0.0.1:2"), "no key for another address"


async def test_another_name_takes_back_what_was_filled_in(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(
        '[provider.lab]\ntype = "openai"\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m1"\napi_key = "env:LAB_KEY"\n'
    )
    async with welcome(tmp_path) as stage:
        await stage.press("c")
        await stage.write("lab")
        await stage.press("tab")
        stage.one(Input, "#model").value = "mine"
        await stage.press("shift+tab", "end")
        await stage.write("2")
        await stage.press("tab")
        shown = stage.app.screen
        assert isinstance(shown, ConnectDialog)
        assert shown.connection == ModelConnection("lab2", "openai", "", "mine")
        assert stage.one(Input, "#key").placeholder.startswith("empty: none")


async def test_a_known_name_that_was_not_filled_in_is_asked_about_and_keeps_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_connections(monkeypatch)
    (tmp_path / "config").mkdir()
    before = {"type": "openai", "base_url": "http://127.0.0.1:1/v1", "api_key": "env:LAB_KEY", "context_window": 64_000}
    lines = "".join(f"{key} = {value!r}\n" for key, value in before.items())
    (tmp_path / "config" / "config.toml").write_text(f"[provider.openai]\n{lines}")
    async with welcome(tmp_path) as stage:
        await stage.press("c")
        stage.one(Input, "#model").value = "m2"
        await stage.press("enter")
        await stage.until(lambda: "openai is connected already" in stage.one(TextBlock, "#error").plain)
        await stage.press("enter")
        await stage.until(lambda: "Press enter again to keep the connection" in stage.one(TextBlock, "#error").plain)
        await stage.press("enter", until=lambda: shows(stage, WelcomeScreen))
        written = tomllib.loads((tmp_path / "config" / "config.toml").read_text())
        assert written == {"provider": {"openai": {**before, "model": "m2"}}}


async def test_a_provider_that_was_changed_while_the_form_was_open_is_not_asked_with_its_new_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_connections(monkeypatch)
    (tmp_path / "config").mkdir()
    file = tmp_path / "config" / "config.toml"
    file.write_text('[provider.lab]\ntype = "openai"\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m1"\n')
    async with welcome(tmp_path) as stage:
        await stage.press("c")
        await stage.write("lab")
        await stage.press("tab")
        file.write_text(file.read_text().replace(":1/v1", ":2/v1"))
        await stage.press("ctrl+t", until=lambda: "lab was changed meanwhile" in stage.one(TextBlock, "#error").plain)
        await stage.press("tab")
        assert stage.one(Input, "#address").value == "http://127.0.0.1:2/v1"


async def test_a_wrong_connection_says_why_and_stays_open(tmp_path: Path) -> None:
    async with welcome(tmp_path) as stage:
        await stage.press("c")
        stage.one(Input, "#address").value = "ftp://x"
        await stage.press("enter", shows="not an http or https address")
        assert "address: " in stage.one(TextBlock, "#error").plain
        assert shows(stage, ConnectDialog)
        await stage.press("escape")
        assert shows(stage, WelcomeScreen)


async def test_trying_shows_the_models_and_fills_the_first_in(tmp_path: Path) -> None:
    async with OllamaServer() as server, welcome(tmp_path) as stage:
        server.models = [Model("qwen3:8b")]
        await stage.press("c")
        stage.one(InlineChoice).choose("ollama")
        stage.one(Input, "#address").value = server.url
        await stage.press("ctrl+t", shows="It answers. Models: qwen3:8b")
        assert stage.one(Input, "#model").value == "qwen3:8b"
        await stage.write("llama")
        assert stage.one(Input, "#model").value == "llama"
        stage.one(Input, "#address").value = "lab"
        await stage.press("ctrl+t", shows="not an http or https address")
        stage.one(Input, "#address").value = "http://127.0.0.1:1"
        await stage.press("ctrl+t", shows="unreachable")


async def test_the_models_of_the_server_are_offered_and_another_name_is_confirmed(tmp_path: Path) -> None:
    async with OllamaServer() as server, welcome(tmp_path) as stage:
        server.models = [Model("qwen3:8b"), Model("llama3.2:3b")]
        await stage.press("c")
        stage.one(InlineChoice).choose("ollama")
        stage.one(Input, "#address").value = server.url
        stage.one(Input, "#name").value = "near"
        await stage.press("enter", until=lambda: "no model is chosen" in stage.one(TextBlock, "#error").plain)
        models = stage.one(ModelField)
        assert models.models == ("qwen3:8b", "llama3.2:3b")
        assert "llama3.2:3b" in stage.text()
        models.value = "qwen3:9b"
        await stage.press("enter", until=lambda: "the nearest is qwen3:8b" in stage.one(TextBlock, "#error").plain)
        assert not (tmp_path / "config" / "config.toml").exists()
        stage.one(Input, "#model").focus()
        await stage.press("down", "down")
        assert models.value == "llama3.2:3b"
        await stage.press("up")
        assert models.value == "qwen3:8b"
        assert "llama3.2:3b" in stage.text()
        await stage.press("enter", until=lambda: shows(stage, WelcomeScreen))
        written = tomllib.loads((tmp_path / "config" / "config.toml").read_text())
        assert written["provider"]["near"]["model"] == "qwen3:8b"


async def test_an_unknown_context_window_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def probe(where: Places, connection: ModelConnection) -> ProbeResult:
        models = (ModelInfo("home-made"),)
        return ProbeResult(connection.name, connection.type, SourceOrigin.SETTINGS, ProbeStatus.OK, models=models)

    async def find(where: Places, connection: ModelConnection) -> int | None:
        return None

    monkeypatch.setattr(connect, "probe_connection", probe)
    monkeypatch.setattr(connect, "find_context_window", find)
    async with welcome(tmp_path) as stage:
        await stage.press("c")
        for field, text in (("name", "mine"), ("model", "home-made"), ("address", "http://127.0.0.1:9/v1")):
            stage.one(Input, f"#{field}").value = text
        await stage.press("enter")
        said = stage.one(TextBlock, "#error")
        await stage.until(lambda: "does not say how much text home-made can read at once" in said.plain)
        assert "8,192" in said.plain
        stage.one(Input, "#window").value = "many"
        await stage.press("enter", until=lambda: "'many' is not a number of tokens" in said.plain)
        stage.one(Input, "#window").value = "32,768"
        await stage.press("enter", until=lambda: shows(stage, WelcomeScreen))
        written = tomllib.loads((tmp_path / "config" / "config.toml").read_text())
        assert written["provider"]["mine"]["context_window"] == 32768


async def test_a_key_in_the_environment_is_connected_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk-secret")
    refuse_connections(monkeypatch)
    async with welcome(tmp_path) as stage:
        stage.one(PickList, "#ways").select("key:GROQ_API_KEY")
        await stage.press("enter", until=lambda: shows(stage, ConnectDialog))
        assert "env:GROQ_API_KEY" in stage.text()
        await stage.press("enter", until=lambda: "no model is chosen" in stage.one(TextBlock, "#error").plain)
        stage.one(Input, "#model").value = "llama-3.3-70b"
        await stage.press("enter")
        await stage.until(lambda: "Press enter again to keep the connection" in stage.one(TextBlock, "#error").plain)
        await stage.press("enter", until=lambda: shows(stage, WelcomeScreen))
        written = tomllib.loads((tmp_path / "config" / "config.toml").read_text())
        assert written["provider"]["groq"]["api_key"] == "env:GROQ_API_KEY"


async def test_invalid_settings_are_reported(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text("[swarm]\nmax_mises = 3\n")
    async with cockpit_over(FakeSwarm(), tmp_path / "zoea.db", config=tmp_path / "config") as stage:
        await stage.until(lambda: "unknown key" in stage.text())


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_hostile_settings_are_shown_harmlessly(tmp_path: Path, size: tuple[int, int]) -> None:
    (tmp_path / "config").mkdir()
    model = "".join(char for char in "".join(HOSTILE) if char.isprintable() and char not in '\\"')
    (tmp_path / "config" / "config.toml").write_text(f'[provider.a]\ntype = "ollama"\nmodel = "{model}\\u001b[2J"\n')
    async with welcome(tmp_path, size=size) as stage:
        assert is_harmless(stage.text())
        assert "[/] [bold]" in stage.text()


@asynccontextmanager
async def started(where: Places) -> AsyncIterator[CockpitApp]:
    """The cockpit as `zoea run` makes it, over this workspace."""
    options = RunOptions()
    app = CockpitApp(
        lambda: start.open_swarm(options, where),
        sandbox_opener=lambda: start.open_swarm(replace(options, world="reef"), where),
        config=where.config,
        now=HandClock(START).now,
    )
    async with app.run_test(size=(120, 40)):
        stage = Stage(app, IdlePilot(app), HandClock(START))
        await stage.until(lambda: app.feed.view is not None, within=30)
        try:
            yield app
        finally:
            await app.leave()


@pytest.mark.timeout(120)
async def test_from_an_empty_directory_to_five_miners_who_are_all_there_again(tmp_path: Path) -> None:
    where = places(configured=False)
    async with started(where) as app:
        stage = Stage(app, IdlePilot(app), HandClock(START))
        await stage.until(lambda: isinstance(app.screen, WelcomeScreen))
        app.action_do("welcome.sandbox")
        await stage.until(lambda: isinstance(app.screen, DashboardScreen) and len(app.feed.myses) == 5, within=30)
        await stage.until(lambda: all(view.tool_calls for view in app.feed.myses.values()), within=30)
    calls = {view.name: view.tool_calls for view in app.feed.myses.values()}
    # Opened again without a word about the world: the workspace has it.
    async with started(where) as app:
        stage = Stage(app, IdlePilot(app), HandClock(START))
        await stage.until(lambda: len(app.feed.myses) == 5)
        assert isinstance(app.screen, DashboardScreen)
        await app.api.start_all()
        await stage.until(
            lambda: all(view.tool_calls > calls[view.name] for view in app.feed.myses.values()), within=30
        )
