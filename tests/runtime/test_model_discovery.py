"""Discovery of models, and connecting one: its provider in the settings, its key in the credentials."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.ollama_server import Model, OllamaServer
from zoea.llm.discovery import ProbeStatus, UsualPort
from zoea.model.errors import SettingsError
from zoea.runtime import model_discovery
from zoea.runtime.model_discovery import (
    ModelConnection,
    find_servers,
    load_run_settings,
    probe_connection,
    read_model_sources,
    save_connection,
)
from zoea.settings.credentials import Credentials
from zoea.settings.key_paths import SettingsInvalid
from zoea.settings.layers import load
from zoea.settings.paths import Places, places

SECRET = "sk-very-secret"


@pytest.fixture
def where(monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.delenv("ZOEA_SWARM__DISCOVER")
    return places(configured=False)


def read_settings_file(where: Places) -> dict[str, object]:
    return tomllib.loads(where.config_file.read_text())


def test_a_key_is_stored_as_a_credential_and_referenced_in_the_settings(where: Places) -> None:
    save_connection(where, ModelConnection("mine", "openai", "http://127.0.0.1:1/v1", "m", SECRET))
    assert read_settings_file(where)["provider"] == {
        "mine": {"type": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "m", "api_key": "file:mine"}
    }
    stored = Credentials(where.credentials).get("mine")
    assert stored is not None
    assert stored.get_secret_value() == SECRET
    assert SECRET not in where.config_file.read_text()
    assert load(where).settings.provider_name() == "mine"


def test_a_key_reference_is_written_unchanged(where: Places) -> None:
    save_connection(where, ModelConnection("mine", "anthropic", key="env:ANTHROPIC_API_KEY"))
    assert read_settings_file(where)["provider"] == {"mine": {"type": "anthropic", "api_key": "env:ANTHROPIC_API_KEY"}}
    assert not where.credentials.exists()


def test_a_model_connected_again_replaces_what_was_said_and_not_the_default_provider(where: Places) -> None:
    save_connection(where, ModelConnection("mine", "openai", "http://127.0.0.1:1/v1", "m", SECRET))
    save_connection(where, ModelConnection("other", "ollama", model="o"))
    save_connection(where, ModelConnection("mine", model="n"))
    stored: Any = read_settings_file(where)["provider"]
    assert stored["mine"] == {
        "type": "openai",
        "base_url": "http://127.0.0.1:1/v1",
        "model": "n",
        "api_key": "file:mine",
    }
    save_connection(where, ModelConnection("mine", model="n"), cleared=("base_url",))
    stored = read_settings_file(where)["provider"]
    assert stored["mine"] == {"type": "openai", "model": "n", "api_key": "file:mine"}
    assert load(where).settings.provider_name() == "other"


@pytest.mark.parametrize("former", ["sk-old", ""])
def test_a_connection_that_cannot_be_written_leaves_the_key_as_it_was(
    where: Places, monkeypatch: pytest.MonkeyPatch, former: str
) -> None:
    def write_nothing(file: Path, values: object) -> None:
        raise SettingsError(f"{file} cannot be written: no space left on device")

    where.make_data()
    if former:
        Credentials(where.credentials).set("mine", former)
    monkeypatch.setattr(model_discovery, "set_keys", write_nothing)
    with pytest.raises(SettingsError, match="no space left"):
        save_connection(where, ModelConnection("mine", "openai", "http://127.0.0.1:1/v1", "m", SECRET))
    kept = Credentials(where.credentials).get("mine")
    assert (kept.get_secret_value() if kept is not None else "") == former


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (ModelConnection("a b", key=SECRET), "a name is"),
        (ModelConnection("", key=SECRET), "a name is"),
        (ModelConnection("a.b", key=SECRET), "a name is"),
        (ModelConnection("a", "openai", "ftp://x", key=SECRET), "not an http or https address"),
        (ModelConnection("a", "telepathy", key=SECRET), "type"),
    ],
)
def test_an_invalid_connection_writes_nothing(where: Places, wrong: ModelConnection, said: str) -> None:
    with pytest.raises(SettingsInvalid, match=said) as error:
        save_connection(where, wrong)
    assert not where.config_file.exists()
    assert not where.credentials.exists()
    assert SECRET not in f"{error.value} {wrong!r}"


async def test_probing_lists_the_models(where: Places) -> None:
    async with OllamaServer() as server:
        server.models = [Model("qwen3:8b")]
        found = await probe_connection(where, ModelConnection("", "ollama", server.url))
        assert found.status is ProbeStatus.OK
        assert [model.name for model in found.models or ()] == ["qwen3:8b"]


async def test_probing_with_an_unknown_key_reference_raises_settings_error(where: Places) -> None:
    with pytest.raises(SettingsError, match="NOWHERE is not set"):
        await probe_connection(where, ModelConnection("a", "openai", "http://127.0.0.1:1/v1", key="env:NOWHERE"))


async def test_running_local_servers_are_found_and_closed_ports_are_not(where: Places) -> None:
    async with OllamaServer() as server:
        port = int(server.url.rpartition(":")[2])
        ports = (UsualPort("Ollama", port, "ollama"), UsualPort("Nobody", 1, "openai"))
        found = [one async for one in find_servers(load(where), ports)]
        assert [one.name for one in found] == ["Ollama"]


async def test_no_server_is_probed_if_settings_forbid_it(where: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOEA_SWARM__DISCOVER", "false")
    async with OllamaServer() as server:
        port = int(server.url.rpartition(":")[2])
        assert [one async for one in find_servers(load(where), (UsualPort("Ollama", port, "ollama"),))] == []


def test_model_sources_name_keys_without_their_values(where: Places, tmp_path: Path) -> None:
    save_connection(where, ModelConnection("mine", "openai", model="m", key="env:X"))
    around = read_model_sources(where, {"OPENAI_API_KEY": SECRET})
    assert around.config == where.config_file
    assert around.providers == (("mine", "openai", "m"),)
    assert [key.variable for key in around.keys] == ["OPENAI_API_KEY"]
    assert SECRET not in repr(around)


@pytest.mark.parametrize(("is_headless", "asked", "found"), [(False, "", 1), (True, "", 0), (True, "true", 1)])
async def test_a_run_without_a_screen_looks_for_a_server_only_if_asked_to(
    where: Places, monkeypatch: pytest.MonkeyPatch, is_headless: bool, asked: str, found: int
) -> None:
    monkeypatch.delenv("ZOEA_SWARM__DISCOVER", raising=False)
    if asked:
        monkeypatch.setenv("ZOEA_SWARM__DISCOVER", asked)
    async with OllamaServer() as server:
        server.models = [Model("qwen3:8b")]
        ports = (UsualPort("Ollama", int(server.url.rpartition(":")[2]), "ollama"),)
        loaded = await load_run_settings(where, is_headless=is_headless, ports=ports)
    assert len(loaded.settings.provider) == found
