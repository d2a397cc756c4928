"""Which providers run their models on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.case_tables import walk_cases
from zoea.process.clock import SystemClock
from zoea.runtime import provider_set
from zoea.runtime.provider_set import ProviderSet, is_on_this_machine
from zoea.settings.endpoints import ProviderType
from zoea.settings.paths import Places
from zoea.settings.schema import Settings


@walk_cases(
    ("provider", "model", "is_here"),
    [
        ({"type": "ollama"}, "qwen3:4b", True),
        ({"type": "ollama"}, "gpt-oss:120b-cloud", False),
        ({"type": "ollama", "base_url": "https://models.example"}, "qwen3:4b", False),
        ({"type": "openai", "base_url": "http://127.0.0.1:8080/v1"}, "qwen3", True),
        ({"type": "openai", "base_url": "http://127.0.0.1:8080/v1"}, "gpt-oss:120b-cloud", False),
        ({"type": "openai"}, "gpt-5", False),
        ({"type": "anthropic"}, "claude-opus-5", False),
        ({"type": "embedded"}, "qwen3", True),
        ({"type": "autopilot"}, "", False),
    ],
)
def test_a_model_runs_here_where_its_address_is_of_this_machine(
    provider: dict[str, str], model: str, is_here: bool
) -> None:
    settings = Settings.model_validate({"provider": {"one": provider}})
    assert is_on_this_machine(settings, "one", model) is is_here


def test_a_type_with_a_local_address_of_its_own_runs_here_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProviderType.OPENAI, "address", "http://127.0.0.1:9000")
    settings = Settings.model_validate({"provider": {"one": {"type": "openai"}}})
    assert is_on_this_machine(settings, "one", "qwen3")


async def test_the_modules_of_the_configured_providers_are_imported_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported: list[str] = []

    async def note(name: str) -> None:
        imported.append(name)
        raise ImportError("one that is broken fails where it is needed, and not when the swarm is closed")

    monkeypatch.setattr(provider_set, "import_in_thread", note)
    types = {"one": "openai", "two": "openai", "three": "ollama", "four": "autopilot"}
    settings = Settings.model_validate({"provider": {name: {"type": kind} for name, kind in types.items()}})
    where = Places(data=tmp_path, config=tmp_path, runtime=tmp_path)
    await ProviderSet(settings, where, SystemClock()).load()
    assert sorted(imported) == ["zoea.llm.providers.ollama_provider", "zoea.llm.providers.openai_provider"]
