"""Advice for what was left out names what really helps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.context.sample_histories import Recorder
from zoea.context import Pack, PackStatus, Plan, Priority, Variant, plan
from zoea.context.explain import describe_advice


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


@pytest.mark.parametrize("window", [None, 5000, 9000, 50_000])
@pytest.mark.parametrize("budget", [1200, 2500, 4000, 8000])
def test_following_the_advice_of_a_turn_keeps_each_pack_whole(budget: int, window: int | None) -> None:
    recorder = Recorder()
    recorder.open("old")
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
