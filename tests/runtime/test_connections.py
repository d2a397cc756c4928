"""The connections of a running swarm: listing, reconnecting and trying upstreams and providers."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.fakes.llm_clock import HandClock
from tests.fakes.toolboxes import Faulty
from tests.waiting import until
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.mcp_server.address import Address
from zoea.mcp_server.supervisor import McpServerSupervisor
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError, SettingsError, UpstreamLost, UsageError
from zoea.model.request import ModelInfo
from zoea.runtime import connections
from zoea.runtime.connections import LiveConnections
from zoea.runtime.provider_set import ProviderSet
from zoea.runtime.upstream_set import build_policies, build_upstreams
from zoea.settings.credentials import Credentials
from zoea.settings.layers import load
from zoea.settings.paths import Places
from zoea.settings.schema import Settings
from zoea.settings.trust import Trust
from zoea.store.writer_connection import WriterConnection
from zoea.tools import Toolbox


def ignore_settings(_settings: Settings) -> None:
    """Do nothing: no myses run."""


def own_places(folder: Path) -> Places:
    return Places(data=folder, config=folder, runtime=folder)


def providers(folder: Path, settings: Settings | None = None, **extra: ScriptedProvider) -> ProviderSet:
    where = Places(folder / "data", folder / "config", folder / "run")
    chosen = settings or Settings.model_validate({"swarm": {"default_provider": "scripted"}})
    return ProviderSet(chosen, where, HandClock(), extra)


@pytest.fixture
def faulty(tmp_path: Path) -> Faulty:
    return Faulty(tmp_path)


def make_supervisor(folder: Path) -> McpServerSupervisor:
    """A supervisor of an MCP server that is not started."""
    return McpServerSupervisor(Places(folder, folder, folder), Address("127.0.0.1", 0), level="info")


async def write_nothing(op: Callable[[WriterConnection], int]) -> int:
    raise AssertionError("nothing is written")


@pytest.fixture
async def live(tmp_path: Path, faulty: Faulty) -> AsyncIterator[tuple[LiveConnections, Toolbox]]:
    toolbox = Toolbox([faulty.config(inject={"text": "account"})], logs=tmp_path)
    toolbox.open()
    await toolbox.settled()
    yield (
        LiveConnections(
            toolbox,
            providers(tmp_path),
            make_supervisor(tmp_path),
            ignore_settings,
            load(own_places(tmp_path)),
            write_nothing,
        ),
        toolbox,
    )
    await toolbox.close()


async def test_an_upstream_is_listed_with_its_tools(live: tuple[LiveConnections, Toolbox]) -> None:
    (view,) = await live[0].upstreams()
    assert (view.name, view.transport, view.state, view.sessions) == ("faulty", "stdio", "open", 1)
    echo = next(tool for tool in view.tools if tool.name == "echo")
    assert "text" in json.loads(echo.schema)["properties"]
    assert echo.injected == ("text",)
    assert view.log.endswith("upstream-faulty.log")


async def test_a_tool_tried_by_hand_gives_its_result(live: tuple[LiveConnections, Toolbox]) -> None:
    trial = await live[0].try_tool("faulty", "echo", '{"text": "hello"}')
    assert (trial.content, trial.is_error) == ("hello", False)
    assert trial.took_us > 0


async def test_an_invalid_call_is_refused_before_it_is_sent(live: tuple[LiveConnections, Toolbox]) -> None:
    with pytest.raises(UsageError, match="not JSON"):
        await live[0].try_tool("faulty", "echo", "{")
    with pytest.raises(UsageError, match="no tool nothing"):
        await live[0].try_tool("faulty", "nothing", "{}")
    with pytest.raises(UsageError, match="no upstream gone"):
        await live[0].try_tool("gone", "echo", "{}")


async def test_a_reconnected_upstream_has_a_new_session(live: tuple[LiveConnections, Toolbox], faulty: Faulty) -> None:
    before = len(faulty.seen("start"))
    await live[0].reconnect("faulty")
    await until(lambda: live[1].status()[0].state == "open")
    assert (await live[0].try_tool("faulty", "echo", '{"text": "again"}')).content == "again"
    assert len(faulty.seen("start")) == before + 1


async def test_a_trial_reports_a_lost_upstream(live: tuple[LiveConnections, Toolbox]) -> None:
    await live[1].upstream("faulty").close()
    trial = await live[0].try_tool("faulty", "echo", "{}")
    assert trial.is_error
    assert "not available" in trial.content
    with pytest.raises(UpstreamLost, match="is closed"):
        await live[0].reconnect("faulty")


class Silent(ScriptedProvider):
    async def models(self) -> tuple[ModelInfo, ...]:
        await asyncio.Event().wait()
        return ()


class Refusing(ScriptedProvider):
    async def models(self) -> tuple[ModelInfo, ...]:
        raise ProviderError("401 from there", kind=ErrorClass.AUTH, hint="Set a key.")


async def test_every_provider_is_probed_and_reports_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ASKING_S", 0.01)
    settings = Settings.model_validate(
        {"swarm": {"default_provider": "nokey"}, "provider": {"nokey": {"type": "openai", "api_key": "env:NOT_THERE"}}}
    )
    made = providers(tmp_path, settings, silent=Silent(), refusing=Refusing(), good=ScriptedProvider())
    found = {
        view.name: view
        for view in await LiveConnections(
            Toolbox([], logs=tmp_path),
            made,
            make_supervisor(tmp_path),
            ignore_settings,
            load(own_places(tmp_path)),
            write_nothing,
        ).providers()
    }
    assert list(found) == ["nokey", "silent", "refusing", "good"]
    assert found["nokey"].is_default
    assert found["nokey"].models is None
    assert "no answer within" in found["silent"].problem
    assert (found["refusing"].problem, found["refusing"].hint) == ("401 from there", "Set a key.")
    assert found["good"].models
    assert found["good"].latency_ms is not None


async def test_a_reload_opens_added_upstreams_closes_removed_ones_and_keeps_the_rest(tmp_path: Path) -> None:
    where = own_places(tmp_path)
    serve = f'command = {json.dumps(sys.executable)}\nargs = ["-c", "pass"]\nstart_timeout = 5\n'
    where.config_file.write_text(f"[upstream.kept]\n{serve}\n[upstream.gone]\n{serve}")
    loaded = load(where)
    given = build_upstreams(loaded.settings, Credentials(where.credentials))
    box = Toolbox(given, policies=build_policies(given, loaded.settings), logs=tmp_path)
    live = LiveConnections(box, providers(tmp_path), make_supervisor(tmp_path), ignore_settings, loaded, write_nothing)
    kept = box.upstream("kept")
    try:
        where.config_file.write_text(
            "[turn]\nmax_iterations = 7\n[world]\nturbo = true\n[metrics]\nport = 0\n"
            f"[upstream.kept]\n{serve}\n[upstream.new]\n{serve}"
        )
        report = await live.reload()
        assert set(report.upstreams) == {"gone", "new"}
        assert report.waiting == ("world.turbo", "metrics.port")
        assert [view.name for view in await live.upstreams()] == ["kept", "new"]
        assert box.upstream("kept") is kept
        where.config_file.write_text("[upstream.kept]\nenabled = maybe\n")
        with pytest.raises(SettingsError):
            await live.reload()
        assert [view.name for view in await live.upstreams()] == ["kept", "new"]
    finally:
        await box.close()


async def test_a_reload_says_which_project_keys_lost_their_trust(tmp_path: Path) -> None:
    where, project = own_places(tmp_path), tmp_path / "cwd" / "zoea.toml"
    project.write_text("[budget]\nswarm_per_day = 5000\n")
    Trust(where.trusted).add(project, project.read_bytes())
    loaded = load(where)
    assert loaded.settings.budget.swarm_per_day == 5000
    box = Toolbox([], logs=tmp_path)
    adopted: list[Settings] = []
    live = LiveConnections(box, providers(tmp_path), make_supervisor(tmp_path), adopted.append, loaded, write_nothing)
    try:
        assert (await live.reload()).problems == ()
        project.write_text("[budget]\nswarm_per_day = 9_000_000\n")
        [problem] = (await live.reload()).problems
        assert "not trusted, so this has no effect: budget.swarm_per_day" in problem
        assert [settings.budget.swarm_per_day for settings in adopted] == [5000, 2_000_000]
    finally:
        await box.close()
