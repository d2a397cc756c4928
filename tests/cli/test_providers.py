"""`zoea providers`, as a person types it, against servers on loopback."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.gguf import put_model
from tests.fakes.llamacpp_server import LISTED, PROPS
from tests.fakes.openai_server import OpenAIServer
from tests.fakes.wire_server import Outgoing, Received
from zoea.cli import run
from zoea.cli.commands import providers
from zoea.llm.discovery import UsualPort
from zoea.llm.local.model_files import LocalModels
from zoea.model.errors import UsageError
from zoea.settings.paths import places
from zoea.store.store import Store

GGUF = b"GGUF" + (3).to_bytes(4, "little") + bytes(1000)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A model server in its own thread, because the command runs its own event loop."""
    loop, made = asyncio.new_event_loop(), OpenAIServer()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(made.start(), loop).result(10)
    yield made
    asyncio.run_coroutine_threadsafe(made.close(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


@pytest.fixture(autouse=True)
def _ports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Replace the usual ports by one that stays closed. So tests never reach real servers."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        monkeypatch.setattr(providers, "PORTS", (UsualPort("Ollama", kept.getsockname()[1], "ollama"),))
        yield


def put_on_port(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    port = int(server.url.rpartition(":")[2])
    monkeypatch.setattr(providers, "PORTS", (UsualPort("vLLM", port, "openai", "/v1"),))


def configure(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "config"
    folder.mkdir(mode=0o700)
    (folder / "config.toml").write_text(text)


def as_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(["providers", "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def as_text(capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["providers"]) == 0
    return capsys.readouterr().out


def test_without_providers_the_autopilot_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    said = as_text(capsys)
    assert "autopilot" in said
    assert "Nothing listens on Ollama (http://127.0.0.1:" in said
    assert "A run uses autopilot" in said


def test_a_server_on_a_usual_port_is_found_and_would_be_used(
    capsys: pytest.CaptureFixture[str], server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_port(server, monkeypatch)
    found = as_json(capsys)
    first = next(one for one in found["providers"] if one["origin"] == "port")
    assert (first["name"], first["status"], first["models"][0]["name"]) == ("vLLM", "ok", "reef-1")
    assert first["latency_ms"] > 0
    assert found["choice"]["model"] == "reef-1"


def test_nothing_but_the_list_of_models_is_asked_for(
    capsys: pytest.CaptureFixture[str], server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_port(server, monkeypatch)
    as_text(capsys)
    assert {(one.method, one.path) for one in server.received} == {("GET", "/v1/models")}


def test_a_configured_provider_is_tried_with_its_key_and_the_key_never_shown(
    capsys: pytest.CaptureFixture[str], server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORK_KEY", "sk-very-secret")
    server.key = "sk-very-secret"
    address = f'base_url = "{server.base_url}"\napi_key = "env:WORK_KEY"\nmodel = "reef-1"'
    configure(tmp_path, f'[provider.work]\ntype = "openai"\n{address}\n')
    said = as_text(capsys)
    assert "settings, default" in said
    assert "key in env:WORK_KEY" in said
    assert "A run uses work with reef-1: the default provider of your settings" in said
    assert "secret" not in said


def test_a_refused_key_is_reported_without_its_value(
    capsys: pytest.CaptureFixture[str], server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORK_KEY", "sk-very-wrong")
    server.key = "another"
    configure(tmp_path, f'[provider.work]\ntype = "openai"\nbase_url = "{server.base_url}"\napi_key = "env:WORK_KEY"\n')
    said = as_text(capsys)
    assert "key refused" in said
    assert "unknown" in said
    assert "sk-very-wrong" not in said


def test_a_missing_key_is_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    configure(tmp_path, '[provider.work]\ntype = "openai"\napi_key = "env:NOT_THERE"\n')
    found = as_json(capsys)["providers"][0]
    assert found["status"] == "cannot be used"
    assert "NOT_THERE" in found["detail"]


def test_a_default_that_is_a_types_own_name_is_the_choice(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    configure(tmp_path, '[swarm]\ndefault_provider = "scripted"\n')
    found = as_json(capsys)
    assert found["choice"]["name"] == "scripted"
    assert {one["name"] for one in found["providers"]} == {"scripted", "autopilot"}


def test_local_models_are_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    put_model(LocalModels(tmp_path / "data" / "models"), "tiny")
    embedded = next(one for one in as_json(capsys)["providers"] if one["name"] == "embedded")
    assert (embedded["origin"], embedded["models"][0]) == (
        "local models",
        {"name": "tiny", "context_window": None, "tools": None, "slots": None},
    )


def test_a_long_list_of_models_is_shortened(
    capsys: pytest.CaptureFixture[str], server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.models = [{"id": f"m{n}"} for n in range(7)]
    put_on_port(server, monkeypatch)
    assert "m0, m1, m2 and 4 more" in as_text(capsys)


def test_a_server_without_models_shows_none(
    capsys: pytest.CaptureFixture[str], server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.models = []
    put_on_port(server, monkeypatch)
    said = as_text(capsys)
    assert "no models" in said
    assert "A run uses autopilot" in said


def test_another_program_on_a_usual_port_is_reported(
    capsys: pytest.CaptureFixture[str], server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_port(server, monkeypatch)
    monkeypatch.setattr(server, "handle", html)
    assert "not a model server" in as_text(capsys)


async def html(request: Received, out: Outgoing) -> None:
    out.whole(404, b"<html><h1>Not found</h1></html>", {"content-type": "text/html"})


def test_a_spinner_is_shown_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert run(["providers"]) == 0
    assert "Trying the providers" in capsys.readouterr().err


def test_a_configured_embedded_provider_replaces_the_local_models(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    put_model(LocalModels(tmp_path / "data" / "models"), "tiny")
    configure(tmp_path, '[provider.here]\ntype = "embedded"\n')
    assert [one["name"] for one in as_json(capsys)["providers"]] == ["here", "autopilot"]


LEARNED = """
INSERT INTO model_fact VALUES ('near', 'qwen', 'tool_mode', 'json_schema', 1795000000000000),
  ('near', 'qwen', 'reading_rate', '8.4', 1795000000000000),
  ('near', 'qwen', 'context_window', '4096', 1795000000000000)
"""


def learn(facts: str = LEARNED) -> None:
    """Store facts of a model, as answers of it would."""
    data = places().make_data()

    async def write() -> None:
        store = await Store.open(data / "zoea.db", clock_now=lambda: 1)
        await store.write(lambda conn: conn.execute(facts))
        await store.close()

    asyncio.run(write())


def test_a_learnt_fact_of_a_model_is_shown_with_its_date(
    tmp_path: Path, server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.models, server.props = [LISTED], PROPS
    configure(tmp_path, f"[provider.near]\ntype = 'openai'\nbase_url = '{server.base_url}'\nmodel = 'qwen'\n")
    learn()
    assert run(["providers"]) == 0
    said = capsys.readouterr().out
    assert "near gets up to 2 requests at once: its slots" in said
    assert "qwen on near calls tools by a JSON schema since 2026-11-18, because it wrote calls as text\n" in said
    assert "qwen on near reads 8.4 tokens a second (2026-11-18): under 200, so it gets one request at a time" in said
    assert "qwen on near takes 4,096 tokens at most since 2026-11-18, as its refusal says" in said
    assert as_json(capsys)["learned"][2] == {
        "provider": "near",
        "model": "qwen",
        "name": "tool_mode",
        "value": "json_schema",
        "learned_at": 1_795_000_000_000_000,
    }


TRAITS = """
INSERT INTO model_fact VALUES ('near', 'qwen', 'no_system', 'System role not supported', 1795000000000000),
  ('near', 'qwen', 'without_tool attach', 'tools.0: no', 1795000000000000),
  ('near', 'other', 'short_call_ids', 'length of 9', 1795000000000000), ('far', 'x', 'no_system', '', 1)
"""


def test_traits_are_shown_with_their_date_and_forgotten_by_hand(
    tmp_path: Path, server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.models = [LISTED]
    configure(tmp_path, f"[provider.near]\ntype = 'openai'\nbase_url = '{server.base_url}'\nmodel = 'qwen'\n")
    learn(TRAITS)
    assert run(["providers"]) == 0
    said = capsys.readouterr().out
    assert (
        "qwen on near gets its instructions in the first user message since 2026-11-18, because of its refusal: "
        '"System role not supported"' in said
    )
    assert "qwen on near is offered without the tool attach, whose schema its provider refuses" in said
    assert run(["providers", "--forget", "near", "--model", "qwen"]) == 0
    assert capsys.readouterr().out == "2 facts about qwen on near are forgotten\n"
    assert run(["providers", "--forget", "near"]) == 0
    assert capsys.readouterr().out == "1 fact about near is forgotten\n"
    assert [one["provider"] for one in as_json(capsys)["learned"]] == ["far"]
    with pytest.raises(UsageError, match="--forget"):
        run(["providers", "--model", "qwen"])


def test_a_fact_that_the_settings_overrule_is_called_unused(
    tmp_path: Path, server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.models, server.props = [LISTED], PROPS
    configure(
        tmp_path,
        f"[provider.near]\ntype = 'openai'\nbase_url = '{server.base_url}'\ntool_mode = 'native'\nconcurrency = 5\n",
    )
    learn()
    assert run(["providers"]) == 0
    said = capsys.readouterr().out
    assert "near gets up to 5 requests at once (provider.near.concurrency)" in said
    assert "not in use: its tool_mode is native" in said
    assert "one request at a time" not in said
