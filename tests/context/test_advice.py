"""Advice for what was left out names what really helps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.case_tables import walk_cases
from tests.context.sample_histories import Recorder
from zoea.context import (
    FrozenTurn,
    Pack,
    PackStatus,
    Plan,
    Priority,
    TopicRules,
    Variant,
    plan,
    plan_turn,
    request_limit,
)
from zoea.context.explain import describe_advice, explain
from zoea.context.frozen_turn import name_settings
from zoea.settings.fields import MOST_TOKENS
from zoea.settings.schema import Settings
from zoea.swarm.turn.tool_budget import leave_out_tools


def test_a_window_is_what_a_server_is_started_with() -> None:
    assert describe_advice("provider.NAME.context_window = 14000") == "a model server with a window of 14,000 tokens"


def test_a_limit_of_zoeas_own_is_named_as_its_setting() -> None:
    setting = "budget.token_budget_per_agent = 2000"
    assert describe_advice(setting) == setting
    assert describe_advice("") == ""


def whole(made: Plan, pack: str) -> bool:
    decision = made.decision(pack)
    assert decision is not None
    return decision.status is PackStatus.INCLUDED and decision.variant is Variant.FULL and not decision.truncated


SIZES = st.integers(0, 400)
PACKS = st.lists(st.tuples(st.sampled_from(list(Priority)), SIZES, SIZES), min_size=1, max_size=8).map(
    lambda rows: [
        Pack(f"p{place}", "s", priority, "x" * full, "y" * min(compact, full))
        for place, (priority, full, compact) in enumerate(rows)
    ]
)


@given(PACKS, st.integers(1, 800))
def test_following_the_advice_on_a_budget_keeps_the_pack_whole(packs: list[Pack], budget: int) -> None:
    made = plan(packs, max_tokens=budget)
    for decision in made.decisions:
        name, _, value = decision.setting.partition(" = ")
        if name == "max_tokens":
            assert whole(plan(packs, max_tokens=int(value)), decision.id), decision.id


@given(PACKS, st.integers(1, 3000))
def test_following_the_advice_on_characters_keeps_what_the_budget_allows(packs: list[Pack], chars: int) -> None:
    made = plan(packs, max_chars=chars)
    for decision in made.decisions:
        name, _, value = decision.setting.partition(" = ")
        if name == "max_chars":
            assert whole(plan(packs, max_chars=int(value)), decision.id), decision.id


def apply_advice(advice: str) -> dict[str, int]:
    """The arguments of a recorded turn under which the printed settings hold."""
    names = {"budget.token_budget_per_agent": "max_tokens", "tool.max_result_chars": "max_result_chars"}
    given: dict[str, int] = {}
    for one in advice.split(" and "):
        name, _, value = one.partition(" = ")
        given[names.get(name, "context_window")] = int(value)
    return given


@walk_cases("window", [None, 5000, 9000, 50_000])
@walk_cases("budget", [1200, 2500, 4000, 8000])
def test_following_the_advice_of_a_turn_keeps_each_pack_whole(budget: int, window: int | None) -> None:
    recorder = Recorder().open("old")
    recorder.slice("get_map", "m" * 9000)
    recorder.answer("well " * 400)
    recorder.open("go")
    for number in range(6):
        recorder.slice("mine", f"secret-{number} " * 100)
    limits: dict[str, Any] = {"max_tokens": budget, "context_window": window, "max_output_tokens": 500}
    made = recorder.plan(**limits, situation="s" * 3000)
    asked = [decision for decision in made.decisions if decision.setting]
    assert asked or budget == 8000
    for decision in asked:
        followed = recorder.plan(**{**limits, **apply_advice(decision.setting)}, situation="s" * 3000)
        assert whole(followed, decision.id), (decision.id, decision.setting)


def test_where_no_setting_allows_so_much_none_is_named() -> None:
    recorder = Recorder().open("go")
    for number in range(9):
        recorder.slice("read", f"page {number} " * 9_000)
    made = recorder.plan(max_tokens=20_000)
    turn = made.decision("turn")
    assert turn is not None
    assert turn.variant is Variant.COMPACT
    assert turn.setting == "", "the whole turn has more characters than any request may have"
    assert "turn: no setting keeps all parts whole" in explain(made)


def test_the_advice_for_a_source_raises_both_budgets_that_bound_it() -> None:
    rules = TopicRules(own_tokens=9_000, agent_tokens=5_000, is_capped=True)
    frozen = replace(Recorder().frozen(max_tokens=5_000), topics=rules)
    assert name_settings(request_limit(frozen), frozen, 8_000) == "budget.token_budget_per_agent = 8000"
    both = "budget.token_budget_per_agent = 12000 and context_strategy.max_tokens = 12000"
    assert name_settings(request_limit(frozen), frozen, 12_000) == both
    own = replace(
        frozen, max_tokens=5_000, topics=replace(rules, own_tokens=5_000, agent_tokens=9_000, is_capped=False)
    )
    assert name_settings(request_limit(own), own, 8_000) == "context_strategy.max_tokens = 8000"
    assert name_settings(request_limit(own), own, 12_000) == (
        "context_strategy.max_tokens = 12000 and budget.token_budget_per_agent = 12000"
    )


def test_the_most_that_the_advice_names_is_what_the_setting_allows() -> None:
    frozen = Recorder().frozen(max_tokens=5_000, calibration=2.0)
    bound = request_limit(frozen)
    assert name_settings(bound, frozen, MOST_TOKENS) == f"{bound.setting} = {MOST_TOKENS}"
    assert name_settings(bound, frozen, MOST_TOKENS + 1) == ""
    allowed = Settings.model_validate({"budget": {"token_budget_per_agent": MOST_TOKENS}})
    assert allowed.budget.token_budget_per_agent == MOST_TOKENS
    with pytest.raises(ValueError, match="token_budget_per_agent"):
        Settings.model_validate({"budget": {"token_budget_per_agent": MOST_TOKENS + 1}})


@walk_cases("calibration", [0.8, 1.0, 1.37, 2.0])
def test_following_the_advice_for_tools_leaves_none_out(calibration: float) -> None:
    sizes = {f"peer__tool_{number}": 900 + 7 * number for number in range(30)}
    recorder = Recorder().open("go")

    def choose(frozen: FrozenTurn) -> FrozenTurn:
        return leave_out_tools(frozen, sizes, 1, dict)

    frozen = choose(recorder.frozen(max_tokens=5_000, calibration=calibration))
    assert frozen.left_out_tools
    tools = plan_turn(frozen, recorder.answers(frozen)).decision("tools")
    assert tools is not None
    name, _, value = tools.setting.partition(" = ")
    assert name == "budget.token_budget_per_agent"
    larger = choose(recorder.frozen(max_tokens=int(value), calibration=calibration))
    assert not larger.left_out_tools
    again = plan_turn(larger, recorder.answers(larger)).decision("tools")
    assert again is not None
    assert not again.truncated
