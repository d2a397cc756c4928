"""Budgets: planner.md, "Budgets": backpressure, refusal, the one warning, what a stop gives back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.swarm.harness import call, script, swarm
from zoea.model.request import Answer
from zoea.model.values import Usage
from zoea.model.words import MysisState
from zoea.settings import Settings
from zoea.swarm.budgets import crossed_warning, judge_task


@pytest.mark.parametrize(
    ("used", "rest_ms"),
    [(0, 0), (79, 0), (80, 50), (84, 50), (85, 300), (90, 750), (95, 1500), (99, 1500), (100, 5000), (250, 5000)],
)
def test_backpressure_by_what_is_used(used: int, rest_ms: int) -> None:
    assert judge_task(used, 0, 100, "soft").rest_us == rest_ms * 1000


@pytest.mark.parametrize("enforcement", ["hard", "approve"])
def test_hard_refuses_with_the_numbers_what_soft_only_slows(enforcement: str) -> None:
    verdict = judge_task(195_000, 6_300, 200_000, enforcement)
    assert verdict.refused == "Task budget exceeded: 201,300/200,000 tokens"
    assert judge_task(195_000, 6_300, 200_000, "soft").refused == ""
    assert judge_task(195_000, 5_000, 200_000, enforcement).refused == ""


def test_a_budget_of_nothing_is_used_up() -> None:
    assert judge_task(0, 0, 0, "soft").rest_us == 5_000_000


@pytest.mark.parametrize(
    ("before", "after", "limit", "crossed"),
    [(0, 79, 100, False), (79, 80, 100, True), (0, 500, 100, True), (80, 90, 100, False), (0, 1, 0, False)],
)
def test_the_warning_is_crossed_once(before: int, after: int, limit: int, crossed: bool) -> None:
    assert crossed_warning(before, after, limit) is crossed


def spending(*tokens: int) -> Any:
    """Answers with calls that use so many tokens each; then one without calls."""
    answers = [
        Answer(calls=(call("act", f"n{place}"),), usage=Usage(input_tokens=used, output_tokens=0))
        for place, used in enumerate(tokens)
    ]
    return script(*answers, Answer(text="done", usage=Usage(input_tokens=10, output_tokens=0)))


LIMIT = {"budget": {"token_budget_per_agent": 5000, "token_budget_per_task": 10_000}}


async def test_one_warning_event_when_80_per_cent_of_the_turns_budget_are_crossed(tmp_path: Path) -> None:
    settings = Settings.model_validate(LIMIT)
    async with swarm(tmp_path, spending(4000, 3000, 1500, 100), settings=settings) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.send("alpha", "go")
        runner = s.commander._runner("alpha")
        async with asyncio.timeout(10):
            while not runner.is_settled:
                s.clock.by(0.1)
                await asyncio.sleep(0.002)
        warnings = await s.rows("SELECT mysis_id, data FROM event WHERE kind = 'budget.warning'")
        assert warnings == [{"mysis_id": 1, "data": '{"scope": "turn", "used": 8500, "limit": 10000}'}]


async def test_a_stop_in_backpressure_gives_back_what_was_reserved_and_is_no_error(tmp_path: Path) -> None:
    settings = Settings.model_validate(LIMIT)
    async with swarm(tmp_path, spending(9600), settings=settings) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.send("alpha", "go")
        runner = s.commander._runner("alpha")
        await s.until(lambda: runner._driver is not None and runner._driver._turn.phase == "resting")
        await s.commander.stop("alpha")
        assert [row["state"] for row in await s.rows("SELECT state FROM request ORDER BY id")] == [
            "settled",
            "released",
        ]
        spent = await s.rows("SELECT scope, reserved_tokens, used_tokens FROM spend ORDER BY scope")
        assert [(row["scope"], row["reserved_tokens"], row["used_tokens"]) for row in spent] == [
            ("mysis", 0, 9600),
            ("swarm", 0, 9600),
        ]
        assert (await s.commander.mysis("alpha")).errors == 0
        assert s.provider.calls == 1


async def test_a_mysis_that_a_spent_day_holds_can_be_stopped_at_once(tmp_path: Path) -> None:
    settings = Settings.model_validate({"budget": {"swarm_per_day": 100}, "swarm": {"active_turns": 1}})
    async with swarm(tmp_path, script(Answer(text="never")), settings=settings) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.send("alpha", "go")
        await s.until(lambda: s.commander._hold.swarm)
        runner = s.commander._runner("alpha")
        await s.until(lambda: runner._driver is not None and runner._driver._turn.phase == "resting")
        async with asyncio.timeout(3):
            view = await s.commander.stop("alpha")
        assert view.state is MysisState.STOPPED
        assert await s.value("SELECT outcome FROM turn") == "cancelled"
        assert s.provider.calls == 0
