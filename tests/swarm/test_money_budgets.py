"""Budgets of money: prices, reservations, refusals, and what is not known."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.case_tables import walk_cases
from tests.swarm.harness import call, script, swarm
from zoea.llm.prices import ModelPrice, PriceList
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.enums import MysisState
from zoea.model.request import Answer
from zoea.model.values import Usage
from zoea.settings.schema import Settings
from zoea.swarm.budgets import describe_excess, describe_spent_day, renew_reason


def prices(tmp_path: Path, model: str = "priced") -> PriceList:
    file = tmp_path / "prices.toml"
    file.write_text(f'[model."{model}"]\ninput = 10\ncached = 1\noutput = 100\n')
    return PriceList(file)


def spending(*answers: tuple[int, int]) -> Any:
    """Script answers with calls that use these input and output tokens. The last has no calls."""
    found = [
        Answer(calls=(call("act", f"n{place}"),), usage=Usage(input_tokens=used, output_tokens=written))
        for place, (used, written) in enumerate(answers)
    ]
    return script(*found, Answer(text="done", usage=Usage(input_tokens=10, output_tokens=0)))


def limits(**budget: object) -> Settings:
    return Settings.model_validate({"budget": {"token_budget_per_agent": 5000, "max_output_tokens": 500, **budget}})


async def test_what_a_request_costs_is_counted_in_every_scope_and_shown(tmp_path: Path) -> None:
    answer = Answer(text="x", usage=Usage(input_tokens=1000, cached_tokens=400, output_tokens=100))
    async with swarm(tmp_path, script(answer), settings=limits(), prices=prices(tmp_path)) as s:
        await s.commander.create("alpha", model="priced", start=False)
        await s.ask("alpha", "go")
        cost = 600 * 10 + 400 * 1 + 100 * 100
        assert await s.value("SELECT cost_micros FROM request") == cost
        rows = await s.rows("SELECT used_micros, reserved_micros, unpriced FROM spend")
        assert rows == [{"used_micros": cost, "reserved_micros": 0, "unpriced": 0}] * 2
        assert (await s.commander.mysis("alpha")).cost_micros == cost


async def test_a_spent_budget_of_money_refuses_and_says_what_is_left(tmp_path: Path) -> None:
    settings = limits(enforcement="hard", mysis_money=0.2)
    async with swarm(tmp_path, spending((1000, 1200)), settings=settings, prices=prices(tmp_path)) as s:
        await s.commander.create("alpha", model="priced", start=False)
        await s.commander.send("alpha", "go")
        await s.until(lambda: s.state() is MysisState.STOPPED)
        assert s.provider.calls == 1
        assert await s.value("SELECT outcome FROM turn") == "budget"
        said = str(await s.value("SELECT failure FROM turn")) + str((await s.commander.mysis("alpha")).text)
        assert "Mysis budget exceeded: $0." in said
        assert "/$0.20; $0.07 left, this request needs $0.0" in said
        events = await s.rows("SELECT data ->> 'unit' AS unit FROM event WHERE kind = 'budget.refused'")
        assert events == [{"unit": "money"}]


async def test_a_spent_day_of_money_holds_the_swarm(tmp_path: Path) -> None:
    settings = limits(swarm_money_per_day=0.1)
    async with swarm(tmp_path, spending((1000, 600)), settings=settings, prices=prices(tmp_path)) as s:
        await s.commander.create("alpha", model="priced", start=False)
        await s.commander.send("alpha", "go")
        await s.until(lambda: s.commander.swarm.hold_switch.swarm)
        assert s.commander.swarm.hold_switch.reason.startswith("Swarm budget: $0.07/$0.10 spent today, and the next")
        assert await s.value("SELECT sum(reserved_micros) FROM spend") == 0


async def test_others_reserved_money_is_waited_for(tmp_path: Path) -> None:
    """Each of six reserves over 50,000 micros of 120,000 and uses 300."""
    settings = limits(swarm_money_per_day=0.12)
    answer = Answer(text="done", usage=Usage(input_tokens=20, output_tokens=1))
    async with swarm(tmp_path, script(answer), settings=settings, prices=prices(tmp_path)) as s:
        for number in range(6):
            await s.commander.create(f"m{number}", model="priced", start=False)
        await asyncio.gather(*(s.commander.send(f"m{number}", "go") for number in range(6)))
        for number in range(6):
            await s.settled(f"m{number}")
        assert not s.commander.swarm.hold_switch.swarm
        assert await s.value("SELECT used_micros FROM spend WHERE scope = 'swarm'") == 6 * 300


async def test_a_model_without_a_price_is_refused_under_a_budget_of_money_and_free_of_it_otherwise(
    tmp_path: Path,
) -> None:
    settings = limits(enforcement="hard", mysis_money=5)
    async with swarm(tmp_path, spending((100, 1)), settings=settings, prices=prices(tmp_path)) as s:
        await s.commander.create("alpha", model="unheard-of", start=False)
        await s.commander.send("alpha", "go")
        await s.until(lambda: s.state() is MysisState.STOPPED)
        assert s.provider.calls == 0
        said = str(await s.value("SELECT failure FROM turn")) + (await s.commander.mysis("alpha")).text
        assert "the price of unheard-of is not known; `zoea prices set` sets it" in said


async def test_a_soft_budget_of_money_only_slows_down(tmp_path: Path) -> None:
    settings = limits(mysis_money=0.05)
    async with swarm(tmp_path, spending((1000, 500)), settings=settings, prices=prices(tmp_path)) as s:
        await s.commander.create("alpha", model="priced", start=False)
        await s.commander.send("alpha", "go")
        await s.settled_in_time()
        assert s.provider.calls == 2
        assert await s.value("SELECT outcome FROM turn") == "answered"


async def test_a_request_without_reported_usage_costs_what_it_reserved(tmp_path: Path) -> None:
    silent = ScriptedProvider(script(Answer(text="done")), metered=True, counts_usage=False)
    async with swarm(tmp_path, provider=silent, settings=limits(), prices=prices(tmp_path)) as s:
        await s.commander.create("alpha", model="priced", start=False)
        await s.ask("alpha", "go")
        [row] = await s.rows("SELECT state, cost_micros, reserved_micros FROM request")
        assert row["state"] == "estimated"
        assert row["cost_micros"] == row["reserved_micros"] > 0
        assert await s.value("SELECT used_micros FROM spend WHERE scope = 'mysis'") == row["cost_micros"]


@walk_cases(("micros", "said"), [(1_234_567, "$1.23"), (999_999, "$1.00"), (12_345, "$0.0123"), (0, "$0.00")])
def test_money_is_written_in_dollars(micros: int, said: str) -> None:
    assert describe_excess("mysis", micros, 2_000_000, is_money=True) == f"Mysis budget exceeded: {said}/$2.00"


def test_messages_say_what_is_left_and_what_the_request_needs() -> None:
    assert describe_excess("turn", 205_660, 200_000, 199_100).endswith("; 900 left, this request needs 6,560")
    said = "Swarm budget: 10/20 tokens used today, and the next request may take 20"
    assert describe_spent_day(10, 30, 20) == f"{said}: raise budget.swarm_per_day, then resume"
    assert describe_spent_day(10, 30, 20, is_money=True).endswith(": raise budget.swarm_money_per_day, then resume")


@walk_cases(
    ("tokens", "money", "shown"),
    [
        (5_000, None, describe_spent_day(4_661, 5_561, 5_000)),
        (500_000, None, "Swarm budget is now 500,000 tokens: resume to go on"),
        (None, 2.0, "Swarm budget is lifted: resume to go on"),
    ],
)
def test_a_hold_names_the_present_budget_of_the_day(tokens: int | None, money: float | None, shown: str) -> None:
    assert renew_reason(describe_spent_day(4_661, 5_561, 5_000), tokens, money) == shown


def test_a_hold_for_money_names_the_present_limit_and_other_holds_stay() -> None:
    reason = describe_spent_day(70_000, 120_000, 100_000, is_money=True)
    assert renew_reason(reason, 5_000, 0.1) == reason
    assert renew_reason(reason, 5_000, 3.0) == "Swarm budget is now $3.00: resume to go on"
    assert renew_reason("I look first", 5_000, 3.0) == "I look first"


def test_a_price_of_a_pattern_is_marked_as_own() -> None:
    assert ModelPrice("a", 1, 1, 1).cost(10, 10, 10) == 20
