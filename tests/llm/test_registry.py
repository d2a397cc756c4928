"""The type of a provider is a setting, not guessed from its address."""

from __future__ import annotations

from typing import cast

import pytest

from tests.case_tables import walk_cases
from tests.fakes.llm_clock import LoopClock
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.registry import make
from zoea.model.errors import SettingsError
from zoea.model.ports import Provider


@walk_cases("type", ["openai", "anthropic", "ollama"])
@walk_cases("url", ["", "https://api.anthropic.com/v1", "http://127.0.0.1:11434/api"])
def test_the_type_decides_for_any_address(type: str, url: str) -> None:
    made = make("reefnet", ProviderConfig(type, base_url=url, api_key="reef-key"), clock=LoopClock())
    assert (made.kind, made.name, made.label, made.metered) == (type, "reefnet", "reefnet", True)


def test_a_label_and_free_tokens_are_taken_from_the_settings() -> None:
    made = make("reefnet", ProviderConfig("openai", label="Reef", metered=False), clock=LoopClock())
    assert (made.label, made.metered) == ("Reef", False)


def test_other_types_are_made_by_the_given_makers() -> None:
    sentinel = cast(Provider, object())
    found = make("pilot", ProviderConfig("autopilot"), clock=LoopClock(), makers={"autopilot": lambda *_: sentinel})
    assert found is sentinel


def test_a_type_without_a_maker_names_those_that_have_one() -> None:
    with pytest.raises(SettingsError) as caught:
        make("x", ProviderConfig("embedded"), clock=LoopClock(), makers={"autopilot": lambda *_: cast(Provider, None)})
    assert caught.value.hint == "Use one of: anthropic, autopilot, ollama, openai."
