"""Advice for what was left out names what really helps."""

from __future__ import annotations

from zoea.context.explain import describe_advice


def test_a_window_is_what_a_server_is_started_with() -> None:
    assert describe_advice("provider.NAME.context_window = 14000") == "a model server with a window of 14,000 tokens"


def test_a_limit_of_zoeas_own_is_named_as_its_setting() -> None:
    setting = "budget.token_budget_per_agent = 2000"
    assert describe_advice(setting) == setting
    assert describe_advice("") == ""
