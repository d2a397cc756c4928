"""From settings to providers."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoea.llm.local.embedded_provider import EmbeddedProvider
from zoea.llm.local.model_files import LocalModels
from zoea.llm.provider_config import ProviderConfig, Timeouts, resolve_provider
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.llm.registry import make, makers
from zoea.model.enums import Role, ToolMode
from zoea.model.errors import SettingsError
from zoea.model.request import ModelRequest, RequestMessage
from zoea.process.clock import SystemClock
from zoea.settings.credentials import Credentials
from zoea.settings.endpoints import ProviderSettings
from zoea.settings.schema import LlmSettings


def credentials(tmp_path: Path, **env: str) -> Credentials:
    return Credentials(tmp_path / "credentials.toml", env)


def test_every_setting_of_a_provider_reaches_it_with_its_secrets_resolved(tmp_path: Path) -> None:
    given = ProviderSettings.model_validate(
        {
            "type": "openai",
            "base_url": "http://127.0.0.1:8080/v1",
            "api_key": "env:KEY",
            "model": "m",
            "concurrency": 3,
            "rate": 2.5,
            "context_window": 4096,
            "temperature": 0.5,
            "thinking": "low",
            "tool_mode": "json_schema",
            "headers": {"X-Token": "Bearer {env:TOKEN}"},
            "options": {"top_k": 1},
        }
    )
    made = resolve_provider(given, credentials(tmp_path, KEY="k", TOKEN="t"), LlmSettings(timeout=9, between_tokens=8))
    assert made == ProviderConfig(
        type="openai",
        base_url="http://127.0.0.1:8080/v1",
        api_key="k",
        model="m",
        headers={"X-Token": "Bearer t"},
        concurrency=3,
        rate=2.5,
        context_window=4096,
        temperature=0.5,
        thinking="low",
        tool_mode=ToolMode.JSON_SCHEMA,
        options={"top_k": 1},
        timeouts=Timeouts(first=9, between=8),
    )


def test_no_key_is_no_key(tmp_path: Path) -> None:
    given = ProviderSettings.model_validate({"type": "ollama"})
    assert resolve_provider(given, credentials(tmp_path), LlmSettings()).api_key == ""


def test_the_error_of_a_missing_key_names_its_reference(tmp_path: Path) -> None:
    given = ProviderSettings.model_validate({"type": "openai", "api_key": "env:GONE"})
    with pytest.raises(SettingsError, match="GONE"):
        resolve_provider(given, credentials(tmp_path), LlmSettings())


def test_the_embedded_provider_is_made_with_the_local_models(tmp_path: Path) -> None:
    made = make("here", ProviderConfig("embedded"), clock=SystemClock(), makers=makers(LocalModels(tmp_path)))
    assert isinstance(made, EmbeddedProvider)
    assert made.name == "here"


@pytest.mark.parametrize(("options", "metered"), [({}, False), ({"metered": True, "pace": "fast"}, True)])
async def test_the_scripted_provider_is_unmetered_by_default(
    tmp_path: Path, options: dict[str, object], metered: bool
) -> None:
    made = make(
        "script", ProviderConfig("scripted", options=options), clock=SystemClock(), makers=makers(LocalModels(tmp_path))
    )
    assert isinstance(made, ScriptedProvider)
    assert made.metered is metered
    request = ModelRequest("echo", (RequestMessage(Role.USER, "hello"),))
    assert [item async for item in made.stream(request)]


async def test_the_scripted_providers_pace_is_an_option(tmp_path: Path) -> None:
    config = ProviderConfig("scripted", options={"pace": 0.001})
    made = make("script", config, clock=SystemClock(), makers=makers(LocalModels(tmp_path)))
    request = ModelRequest("echo", (RequestMessage(Role.USER, "hello"),))
    assert len([item async for item in made.stream(request)]) == 2


@pytest.mark.parametrize(
    ("options", "examples"), [({}, None), ({"examples": True}, True), ({"examples": False}, False)]
)
def test_whether_examples_are_shown_is_an_option_that_goes_no_further(
    tmp_path: Path, options: dict[str, bool], examples: bool | None
) -> None:
    given = ProviderSettings.model_validate({"type": "openai", "options": {**options, "top_k": 1}})
    made = resolve_provider(given, credentials(tmp_path), LlmSettings())
    assert (made.examples, made.options) == (examples, {"top_k": 1})


def test_an_examples_option_that_is_neither_true_nor_false_is_refused(tmp_path: Path) -> None:
    given = ProviderSettings.model_validate({"type": "embedded", "options": {"examples": "many"}})
    with pytest.raises(SettingsError, match='the option examples is "many"'):
        resolve_provider(given, credentials(tmp_path), LlmSettings())
