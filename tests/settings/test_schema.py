"""Defaults, limits and notations of settings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from tests.case_tables import walk_cases
from zoea.settings.endpoints import ProviderSettings, ProviderType, UpstreamSettings
from zoea.settings.fields import lowest_bound, parse_seconds
from zoea.settings.key_paths import get_value
from zoea.settings.problems import TABLES, model_at
from zoea.settings.reference import describe_kind
from zoea.settings.schema import BudgetSettings, Settings
from zoea.settings.settings_conflicts import find_conflicts
from zoea.settings.template import Template


@walk_cases(
    ("key", "value"),
    [
        ("swarm.max_myses", 16),
        ("swarm.active_turns", 32),
        ("swarm.max_hops", 3),
        ("swarm.inherit_broadcast_hours", 12),
        ("swarm.restart", "ask"),
        ("swarm.messages_per_hour", 20),
        ("swarm.broadcasts_per_hour", 4),
        ("llm.timeout", 120),
        ("llm.between_tokens", 60),
        ("llm.retries", 4),
        ("tool.timeout", 60),
        ("tool.max_result_chars", 100_000),
        ("turn.max_iterations", 20),
        ("turn.timeout", 300),
        ("nudge.enabled", True),
        ("nudge.idle_interval", 30),
        ("nudge.wait_interval", 120),
        ("nudge.max_per_hour", 60),
        ("wait.until_fields", ("arrival_tick", "travel_arrival_tick")),
        ("wait.for_fields", ("cooldown_ticks",)),
        ("wait.default_tick", 10),
        ("loop.volatile", ("current_tick", "*timestamp*", "*_at")),
        ("loop.exempt", ("zoea_wait", "mine", "get_notifications")),
        ("recovery.delays", (30, 120, 600)),
        ("context.strategy", "turns"),
        ("context.keep_answer", True),
        ("context.snapshot_tools", ("get_*",)),
        ("context.keep_tools", ("login", "register", "*_login")),
        ("context.context_window", 8192),
        ("budget.enforcement", "soft"),
        ("budget.swarm_enforcement", "hard"),
        ("budget.token_budget_per_agent", 50_000),
        ("budget.token_budget_per_task", 200_000),
        ("budget.swarm_per_day", 2_000_000),
        ("budget.mysis", None),
        ("budget.background", 500_000),
        ("world.tick", 2.0),
        ("world.systems", 40),
    ],
)
def test_the_defaults_have_the_documented_values(key: str, value: Any) -> None:
    assert get_value(Settings().model_dump(), tuple(key.split("."))) == value


def test_the_defaults_agree_with_each_other() -> None:
    assert find_conflicts(Settings()) == []


@pytest.mark.parametrize("model", [Settings, Template])
def test_every_field_has_a_title_and_a_description_for_forms(model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        assert field.title, name
        section = TABLES.get(name) or model_at(model, (name,))
        if section is None:
            assert field.description, name
            continue
        assert section.__doc__
        for key, inner in section.model_fields.items():
            assert inner.title, f"{name}.{key}"
            assert inner.description, f"{name}.{key}"


@walk_cases(
    ("written", "meant"),
    [("30s", 30), ("2m", 120), ("1h30m", 5400), ("500ms", 0.5), ("1.5 h", 5400), (7, 7), ("7", 7), ("1d", 86400)],
)
def test_durations_accept_units(written: Any, meant: float) -> None:
    assert parse_seconds(written) == pytest.approx(meant)
    assert Settings.model_validate({"nudge": {"idle_interval": written}}).nudge.idle_interval == pytest.approx(meant)


@walk_cases("written", ["soon", "", "-3s", -3, True, "nan", "inf", float("inf"), "1e999", None, [], 0])
def test_an_invalid_duration_is_refused(written: Any) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({"nudge": {"idle_interval": written}})


@walk_cases("written", [0, 2001, True, "many", 1.5, None])
def test_the_number_of_myses_has_limits(written: Any) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({"swarm": {"max_myses": written}})


@pytest.mark.parametrize(("name", "kind"), [("mysis", 'whole number or "none"'), ("mysis_money", 'number or "none"')])
def test_the_kind_of_a_bound_says_whether_fractions_are_accepted(name: str, kind: str) -> None:
    assert describe_kind(BudgetSettings.model_fields[name]) == kind


@walk_cases(("written", "meant"), [("none", None), ("NONE", None), (5, 5), ("5", 5), (None, None)])
def test_none_lifts_a_bound(written: Any, meant: int | None) -> None:
    assert Settings.model_validate({"budget": {"swarm_per_day": written}}).budget.swarm_per_day == meant


@walk_cases("written", ["a, b", '["a", "b"]', ["a", "b"]])
def test_lists_are_written_in_three_ways(written: Any) -> None:
    assert Settings.model_validate({"loop": {"exempt": written}}).loop.exempt == ("a", "b")


@walk_cases("written", ["[1", "[" * 5000, 3, [1]])
def test_an_invalid_list_is_refused(written: Any) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({"loop": {"exempt": written}})


def test_a_table_may_be_json_as_the_environment_gives_it() -> None:
    made = ProviderSettings.model_validate({"type": "openai", "headers": '{"X-A": "1"}', "options": '{"a": [1]}'})
    assert made.headers["X-A"].get_secret_value() == "1"
    assert made.options == {"a": [1]}


@walk_cases("written", ['{"a"', "x", '{"a": 1}'])
def test_an_invalid_table_is_refused(written: str) -> None:
    with pytest.raises(ValidationError):
        ProviderSettings.model_validate({"type": "openai", "headers": written})


@walk_cases("reference", ["", "env:OPENAI_API_KEY", "keyring:open ai", "file:claude"])
def test_a_credential_reference_is_accepted(reference: str) -> None:
    assert ProviderSettings(type=ProviderType.OPENAI, api_key=reference).api_key == reference


@walk_cases("literal", ["sk-abcdef", "env:", "vault:x", "Bearer x", "env:a\nb"])
def test_a_literal_key_is_refused_with_the_command_to_store_it(literal: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ProviderSettings(type=ProviderType.OPENAI, api_key=literal)
    assert "zoea credentials set" in str(caught.value)
    assert "sk-abcdef" not in str(caught.value)


@walk_cases(
    "bad", ["ftp://x", "x", "http://", "http://me:pw@x", "http://x:99999", "file:///etc", "http://[::1", "http://me@x"]
)
def test_an_address_is_http_and_holds_no_password(bad: str) -> None:
    with pytest.raises(ValidationError):
        UpstreamSettings(url=bad)


@walk_cases("name", ["a b", "", "-a", "a" * 33, "ü"])
def test_a_provider_has_a_plain_name(name: str) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({"provider": {name: {"type": "openai"}}})


@walk_cases(("written", "meant"), [(True, True), ("true", True), (2048, 2048), ("2048", 2048), ("high", "high")])
def test_thinking_is_a_flag_a_number_or_a_word(written: Any, meant: Any) -> None:
    assert ProviderSettings.model_validate({"type": "ollama", "thinking": written}).thinking == meant


@walk_cases(
    ("tree", "key"),
    [
        (
            {"budget": {"token_budget_per_agent": 60_000, "token_budget_per_task": 50_000}},
            "budget.token_budget_per_task",
        ),
        ({"llm": {"backoff_first": 30}}, "llm.backoff_first"),
        ({"upstream": {"git": {}}}, "upstream.git"),
        ({"upstream": {"git": {"command": "x", "url": "http://x"}}}, "upstream.git"),
        ({"swarm": {"default_provider": "gone"}}, "swarm.default_provider"),
    ],
)
def test_conflicting_fields_are_named(tree: dict[str, Any], key: str) -> None:
    assert [".".join(path) for path, _ in find_conflicts(Settings.model_validate(tree))] == [key]


def test_a_type_of_provider_works_without_configuration() -> None:
    settings = Settings()
    found = settings.provider_named("anthropic")
    assert found is not None
    assert found.api_key == "env:ANTHROPIC_API_KEY"
    assert settings.provider_named("gone") is None


def test_a_configured_provider_never_gets_the_key_of_an_unconfigured_one() -> None:
    settings = Settings.model_validate({"provider": {"openai": {"type": "openai", "base_url": "http://127.0.0.1:1"}}})
    found = settings.provider_named("openai")
    assert found is not None
    assert found.api_key == ""


def test_the_default_provider_is_the_first_configured_else_the_autopilot() -> None:
    assert Settings().provider_name() == "autopilot"
    one = Settings.model_validate({"provider": {"local": {"type": "ollama"}}})
    assert one.provider_name() == "local"
    assert one.provider_name("other") == "other"
    chosen = one.model_copy(update={"swarm": one.swarm.model_copy(update={"default_provider": "autopilot"})})
    assert chosen.provider_name() == "autopilot"


def test_the_limits_of_an_upstream_have_the_documented_values() -> None:
    limits = UpstreamSettings(command="x", start_timeout=3)
    assert (limits.start_timeout, limits.max_parallel, limits.max_sessions, limits.retries) == (3, 32, 16, 3)
    assert (limits.max_tools, limits.max_schemas) == (128, 32_000)


@given(st.dictionaries(st.text(max_size=3), st.none() | st.integers(1, 100), min_size=1))
def test_the_lowest_bound_wins_and_none_is_above_all(values: dict[str, int | None]) -> None:
    who, what = lowest_bound(values)
    assert values[who] == what
    bounds = [value for value in values.values() if value is not None]
    assert what == (min(bounds) if bounds else None)
