"""The screen of upstreams and providers: state, tools, reconnecting, trying a tool."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest
from msgspec.structs import replace
from textual import events
from textual.widgets import Input

from tests.case_tables import walk_cases
from tests.fakes.swarm import FakeSwarm
from tests.tui.cockpit import Stage, cockpit_over, take_steps
from tests.tui.hostile_texts import HOSTILE, LONG, is_harmless
from zoea.llm.discovery import ProbeResult, ProbeStatus, SourceOrigin
from zoea.model.enums import MysisState
from zoea.model.errors import REFUSED_KEY
from zoea.model.request import ModelInfo
from zoea.model.values import Failure, ProviderView, SwarmView, ToolTrial, ToolView, UpstreamFault, UpstreamView
from zoea.runtime.model_discovery import ModelConnection
from zoea.settings.paths import Places
from zoea.store.store import Store
from zoea.text.large_json import indent
from zoea.tui.conversation.tool_items import build_argument_skeleton
from zoea.tui.dialogs import connect
from zoea.tui.dialogs.upstream_forms import TryToolDialog
from zoea.tui.screens.upstreams import UpstreamsScreen
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.folding_list import FoldingList
from zoea.tui.widgets.line_list import LineList, TextLines


class Step(Protocol):
    def __call__(self, stage: Stage, api: FakeSwarm) -> Awaitable[None]: ...


SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "belt": {"type": "string"},
            "count": {"type": "integer"},
            "how": {"enum": ["fast", "slow"]},
            "note": {"type": "string"},
        },
        "required": ["belt", "count", "how"],
    }
)
MINE = ToolView("mine", "Mines a belt.", SCHEMA, injected=("session_id",))
SCAN = ToolView("scan", "Looks around.", "{}", read_only=True)
SELL = ToolView("sell", "Sells everything.", "{}", destructive=True)


@pytest.fixture
def api(tmp_path: Path) -> FakeSwarm:
    fake = FakeSwarm()
    log = tmp_path / "upstream-reef.log"
    log.write_text("reef listens\n\x1b[31mwarning [/]\n", encoding="utf-8")
    fake.given_upstreams = (
        UpstreamView(
            "reef", "stdio", "open", (MINE, SCAN, SELL), 1, 2, 40, 3, 3.2, 410.0, server="Reef 1", log=str(log)
        ),
        UpstreamView(
            "git", "http", "down", last_error="connection refused", required=True, notes=("272 tools left out",)
        ),
    )
    fake.given_providers = (
        ProviderView("ollama", "ollama", "ollama at 127.0.0.1", 12.0, ("qwen3:8b", "llama3"), is_default=True),
        ProviderView("openai", "openai", "openai", problem="401 no key", hint="Set OPENAI_API_KEY."),
    )
    return fake


@pytest.fixture
async def database(tmp_path: Path) -> Path:
    path = tmp_path / "zoea.db"
    store = await Store.open(path, clock_now=lambda: 1)
    await store.close()
    return path


async def open_upstreams(stage: Stage) -> UpstreamsScreen:
    await stage.press("u")
    screen = stage.screen
    assert isinstance(screen, UpstreamsScreen)
    await stage.until(lambda: "openai" in stage.one(LineList, "#list").plain)
    await stage.pilot.pause()
    return screen


async def every_upstream_and_provider_shows_its_state(stage: Stage, api: FakeSwarm) -> None:
    await open_upstreams(stage)
    text = stage.text()
    for words in (
        "reef",
        "open",
        "3 ms",
        "3 tools",
        "git",
        "down",
        "ollama",
        "ready",
        "2 models",
        "openai",
        "failed",
    ):
        assert words in text, words
    assert "40 calls since Zoea began, 3 failed, 2 running" in text
    await stage.press("down", shows="connection refused")
    assert "272 tools left out" in stage.text()
    await stage.press("G", until=lambda: "401 no key" in stage.text() and "OPENAI_API_KEY" in stage.text())
    await stage.press("up", shows="qwen3:8b")


async def test_tools_unfold_to_their_schemas_and_stderr_is_the_third_part(api: FakeSwarm, database: Path) -> None:
    async with cockpit_over(api, database, size=(80, 24)) as stage:
        screen = await open_upstreams(stage)
        await stage.until(lambda: "UPSTREAMS · TOOLS 3 · STDERR   tab" in stage.text())
        await stage.press("t")
        assert "try a tool: Press tab to go to its tools first" in stage.notices
        await stage.press("tab", "enter")
        offers = stage.one(FoldingList, "#offers")
        await stage.until(lambda: '"belt": {' in offers.plain)
        assert "Zoea fills in: session_id" in offers.plain
        assert "destructive" in offers.plain
        screen.tick()
        screen.tick()
        await stage.pilot.pause()
        assert '"belt": {' in offers.plain
        await stage.press("tab", shows="reef listens")
        assert "warning [/]" in stage.text()
        assert is_harmless(stage.text())


async def an_upstream_is_reconnected_after_a_second_press_where_calls_are_in_flight(
    stage: Stage, api: FakeSwarm
) -> None:
    await open_upstreams(stage)
    await stage.press("r")
    assert api.reconnected == []
    assert any("2 calls in flight" in notice for notice in stage.notices)
    await stage.press("r", until=lambda: api.reconnected == ["reef"])
    await stage.press("down", "r", until=lambda: api.reconnected == ["reef", "git"])


async def providers_are_asked_again(stage: Stage, api: FakeSwarm) -> None:
    await open_upstreams(stage)
    await stage.press("G")
    api.given_providers = (ProviderView("openai", "openai", "openai", 80.0, ("gpt",)),)
    await stage.press("r", shows="1 model ")


async def a_tool_is_tried_with_arguments_that_begin_with_what_is_required(stage: Stage, api: FakeSwarm) -> None:
    await open_upstreams(stage)
    await stage.press("tab", "t", shows=TryToolDialog)
    assert "session_id: each mysis has its own, from its login." in stage.text()
    api.trial = ToolTrial("mined [/] 漢字\x1b[2J", False, 1_500_000)
    await stage.press("ctrl+r", shows="mined [/]")
    assert api.tried[0][:2] == ("reef", "mine")
    assert json.loads(api.tried[0][2]) == {"belt": "", "count": 0, "how": "fast"}
    assert "done" in stage.text()
    assert is_harmless(stage.text())
    api.trial = ToolTrial(LONG, True, 1)
    await stage.press("ctrl+r")
    await stage.until(lambda: "failed" in stage.text() and stage.one(TextLines).plain.startswith("xxx"))
    await stage.press("escape")
    assert isinstance(stage.screen, UpstreamsScreen)


async def a_destructive_tool_is_called_only_on_the_second_press(stage: Stage, api: FakeSwarm) -> None:
    await open_upstreams(stage)
    await stage.press("tab", "G", "t", shows=TryToolDialog)
    await stage.press("ctrl+r")
    assert api.tried == []
    assert "press ^r again" in stage.text()
    await stage.press("ctrl+r", until=lambda: api.tried == [("reef", "sell", "{}")])


async def a_refusal_of_the_swarm_is_shown(stage: Stage, api: FakeSwarm) -> None:
    await open_upstreams(stage)
    await stage.press("tab", "t", shows=TryToolDialog)
    api.given_upstreams = ()
    await stage.press("ctrl+r", shows="no upstream reef")


async def test_without_an_upstream_it_says_how_to_add_one(api: FakeSwarm, database: Path) -> None:
    api.given_upstreams = ()
    async with cockpit_over(api, database) as stage:
        await open_upstreams(stage)
        assert "no tool servers yet: n adds one" in stage.text()
        await stage.press("t")
        assert any("Put the cursor on a tool" in notice for notice in stage.notices)


async def test_hostile_text_is_shown_as_it_is(api: FakeSwarm, database: Path) -> None:
    bad = "".join(HOSTILE)
    tools = tuple(ToolView(f"{text}", text + LONG[:50_000], text) for text in HOSTILE)
    api.given_upstreams = (replace(api.given_upstreams[0], name=bad, tools=tools, last_error=bad, server=bad),)
    api.given_providers = (*api.given_providers, ProviderView(bad, bad, bad, models=HOSTILE, problem=bad, hint=bad))
    async with cockpit_over(api, database, size=(80, 24)) as stage:
        for size in ((80, 24), (120, 40), (200, 60)):
            await stage.pilot.resize_terminal(*size)
            await open_upstreams(stage)
            assert is_harmless(stage.text()), size
            await stage.press("tab", "v", "enter")
            await stage.pilot.pause()
            assert is_harmless(stage.text()), size
            await stage.press("t", shows=TryToolDialog)
            assert is_harmless(stage.text()), size
            await stage.go_home()


@walk_cases(
    ("schema", "begin"),
    [
        ("no json", {}),
        ("[]", {}),
        ('{"properties": 5}', {}),
        ('{"properties": {"a": {"type": "boolean"}}}', {"a": False}),
        (
            '{"properties": {"a": {"default": 7}, "b": {"type": ["string", "null"]}, "c": 1}}',
            {"a": 7, "b": None, "c": None},
        ),
        ('{"properties": {"a": {}, "b": {}, "c": {}, "d": {}, "e": {}}}', {}),
    ],
)
def test_arguments_to_begin_with_are_made_from_any_schema(schema: str, begin: dict[str, object]) -> None:
    assert json.loads(build_argument_skeleton(ToolView("t", "", schema))) == begin
    assert indent(schema)


def settings_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / "config" / "config.toml").read_text())
    return found


async def n_adds_a_server_from_a_command_line_and_the_swarm_takes_it_over(stage: Stage, api: FakeSwarm) -> None:
    await open_upstreams(stage)
    await stage.press("n")
    await stage.write("near")
    await stage.press("tab")
    stage.one(Input, "#server").value = "npx -y 'some server' /data"
    await stage.press("enter", until=lambda: api.reloads == 1 and stage.shows(UpstreamsScreen))
    assert settings_of(stage.app.config.parent)["upstream"] == {
        "near": {"command": "npx", "args": ["-y", "some server", "/data"]}
    }
    await stage.until(lambda: "The settings are applied; upstreams: near" in str(stage.notices))
    assert "llm: when the swarm is opened again" in stage.notices[-1]


async def an_address_and_a_pasted_json_are_servers_too(stage: Stage, api: FakeSwarm) -> None:
    await open_upstreams(stage)
    for name, text in (
        ("wiki", "https://mcp.example.org/mcp"),
        ("", '{"mcpServers": {"pasted": {"command": "serve", "args": ["--quick"]}}}'),
    ):
        await stage.press("n")
        stage.one(Input, "#name").value = name
        stage.one(Input, "#server").value = text
        await stage.press("enter", shows=UpstreamsScreen)
    await stage.until(lambda: api.reloads == 2)
    assert settings_of(stage.app.config.parent)["upstream"] == {
        "wiki": {"url": "https://mcp.example.org/mcp"},
        "pasted": {"command": "serve", "args": ["--quick"]},
    }


async def the_file_of_a_client_is_pasted_with_its_lines_and_comments(stage: Stage, api: FakeSwarm) -> None:
    file = """// VS Code
{
  "servers": {
    // keeps notes
    "notes": {"command": "serve", "args": ["//share", "a,  }"],},
  },
}
"""
    await open_upstreams(stage)
    await stage.press("n")
    server = stage.one(Input, "#server")
    server.focus()
    server.post_message(events.Paste(file))
    await stage.until(lambda: "notes" in server.value)
    await stage.press("enter", shows=UpstreamsScreen)
    assert settings_of(stage.app.config.parent)["upstream"] == {
        "notes": {"command": "serve", "args": ["//share", "a,  }"]}
    }


async def a_server_that_cannot_be_read_is_told_in_the_form(stage: Stage, api: FakeSwarm) -> None:
    await open_upstreams(stage)
    await stage.press("n")
    stage.one(Input, "#server").value = "serve 'half"
    await stage.press("enter", until=lambda: "the name is empty" in stage.one(TextBlock, "#error").plain)
    stage.one(Input, "#name").value = "half"
    await stage.press("enter")
    await stage.until(lambda: "the command line cannot be read" in stage.one(TextBlock, "#error").plain)
    assert api.reloads == 0


async def test_space_switches_an_upstream_off_and_on_and_d_removes_it(
    tmp_path: Path, api: FakeSwarm, database: Path
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text('[upstream.reef]\ncommand = "serve"\n')
    async with cockpit_over(api, database) as stage:
        screen = await open_upstreams(stage)
        await stage.until(lambda: "Reef 1" in stage.text())
        await stage.press("space", until=lambda: api.reloads == 1)
        assert settings_of(tmp_path)["upstream"]["reef"]["enabled"] is False
        given, api.given_upstreams = api.given_upstreams, ()
        await stage.until(lambda: isinstance(screen.chosen, UpstreamView) and screen.chosen.state == "off")
        assert "◌ reef" in stage.text()  # neither fine nor broken
        await stage.press("space", until=lambda: api.reloads == 2)
        assert settings_of(tmp_path)["upstream"] == {"reef": {"command": "serve"}}
        api.given_upstreams = given
        await stage.until(lambda: "reef" in stage.text())
        await stage.press("home")
        await stage.until(lambda: isinstance(screen.chosen, UpstreamView) and screen.chosen.state == "open")
        await stage.press("D")
        assert "Remove reef?" in stage.text()
        await stage.press("y", until=lambda: api.reloads == 3)
        assert settings_of(tmp_path).get("upstream", {}) == {}


async def the_cursor_passes_over_titles_and_keys_on_a_provider_say_what_they_need(stage: Stage, api: FakeSwarm) -> None:
    screen = await open_upstreams(stage)
    for keys, name in (
        (("g",), "reef"),
        (("k",), "reef"),
        (("j", "j"), "ollama"),
        (("k",), "git"),
        (("G",), "openai"),
    ):
        await stage.press(*keys)
        assert screen.chosen is not None
        assert screen.chosen.name == name
    await stage.press("space", "D")
    assert stage.notices.count("on/off: Put the cursor on an upstream first") == 1
    assert stage.notices.count("remove: Put the cursor on an upstream first") == 1
    assert api.reloads == 0


async def test_changed_settings_are_noticed_and_applied_while_myses_run(
    tmp_path: Path, api: FakeSwarm, database: Path
) -> None:
    async with cockpit_over(api, database) as stage:
        (tmp_path / "config").mkdir(exist_ok=True)
        (tmp_path / "config" / "config.toml").write_text('[tui]\ntheme = "tide"\nkeys = {"swarm.hold" = "f6"}\n')
        stage.app.tick()
        await stage.until(lambda: "changed outside this cockpit: f5 loads them (:reload)" in str(stage.notices))
        assert "settings changed: f5 loads them" in stage.text()
        await stage.press("f5")
        await stage.until(lambda: stage.app.theme_spec.name == "tide" and stage.app.keys["swarm.hold"] == "f6")
        await stage.until(lambda: "settings changed: f5" not in stage.text())
        assert api.reloads == 1


async def test_e_replaces_a_refused_key_and_the_myses_go_on(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").mkdir()
    config = tmp_path / "config" / "config.toml"
    config.write_text(
        '[provider.lab]\ntype = "openai"\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m1"\ncontext_window = 32768\n'
    )
    tried: list[str] = []

    async def probe(places: Places, connection: ModelConnection) -> ProbeResult:
        tried.append(connection.key)
        model = ModelInfo("m1")
        return ProbeResult(connection.name, connection.type, SourceOrigin.SETTINGS, ProbeStatus.OK, models=(model,))

    monkeypatch.setattr(connect, "probe_connection", probe)
    fake = FakeSwarm()
    for name, title in (("alpha", REFUSED_KEY), ("beta", REFUSED_KEY), ("gamma", "The quota is used up")):
        made = replace(await fake.create(name, provider="lab"), state=MysisState.ERRORED)
        fake.put(replace(made, failure=Failure("ProviderError", title, "401", "Mend it.")), "mysis.state")
    async with cockpit_over(fake, database) as stage:
        await stage.until(lambda: "alpha and 1 more" in stage.text())
        await stage.press("E", shows="lab is connected already")
        await stage.enter("sk-new")
        await stage.until(lambda: "alpha and beta go on" in stage.notices)
        states = {view.name: view.state for view in (await fake.view()).myses}
        assert states == {"alpha": "running", "beta": "running", "gamma": "errored"}
        assert (tried, fake.reloads) == (["sk-new"], 1)
        assert tomllib.loads(config.read_text())["provider"]["lab"]["api_key"] == "file:lab"


async def test_the_cursor_begins_at_an_upstream_that_does_not_work(api: FakeSwarm, database: Path) -> None:
    async with cockpit_over(api, database) as stage:
        stage.app.feed.take(SwarmView(1, False, "", (), faults=(UpstreamFault("git", "down", "connection refused"),)))
        await open_upstreams(stage)
        await stage.until(lambda: "connection refused" in stage.text())


async def take_upstream_steps(stage: Stage, api: FakeSwarm, *steps: Step) -> None:
    """Take steps in one cockpit. Each finds the upstreams and providers of `api`, and no settings file."""
    given = api.given_upstreams, api.given_providers, api.trial
    for step in steps:
        await take_steps(stage, partial(step, api=api))
        api.given_upstreams, api.given_providers, api.trial = given
        api.reconnected.clear()
        api.tried.clear()
        api.reloads = 0
        (stage.app.config / "config.toml").unlink(missing_ok=True)
        stage.app.settings_watch.mark_applied()


async def test_upstreams_and_their_tools_are_shown_tried_and_added(api: FakeSwarm, database: Path) -> None:
    async with cockpit_over(api, database) as stage:
        await take_upstream_steps(
            stage,
            api,
            every_upstream_and_provider_shows_its_state,
            an_upstream_is_reconnected_after_a_second_press_where_calls_are_in_flight,
            providers_are_asked_again,
            a_tool_is_tried_with_arguments_that_begin_with_what_is_required,
            a_destructive_tool_is_called_only_on_the_second_press,
            a_refusal_of_the_swarm_is_shown,
            n_adds_a_server_from_a_command_line_and_the_swarm_takes_it_over,
            an_address_and_a_pasted_json_are_servers_too,
            the_file_of_a_client_is_pasted_with_its_lines_and_comments,
            a_server_that_cannot_be_read_is_told_in_the_form,
            the_cursor_passes_over_titles_and_keys_on_a_provider_say_what_they_need,
        )
