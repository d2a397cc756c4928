"""Budgets in `zoea stats`: how much is used, what is left, and what to do."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.cli.conftest import Zoea
from tests.swarm.harness import script, swarm
from zoea.model.request import Answer
from zoea.model.values import Usage
from zoea.queries.budget_report import Pressure, read_budgets
from zoea.queries.model_records import read_calibrations
from zoea.settings.paths import places
from zoea.settings.schema import Settings


async def _spend(folder: Path) -> None:
    answer = Answer(text="done", usage=Usage(input_tokens=900_000, output_tokens=600_000))
    async with swarm(folder, script(answer)) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.configure("alpha", settings={"budget.mysis": 1_600_000})
        await s.commander.broadcast("go", limits='{"token_budget_total": 4000000}')
        await s.settled()


def test_each_budget_is_shown_with_what_is_left_and_what_to_do(zoea: Zoea) -> None:
    where = places(configured=False)
    where.make_data()
    asyncio.run(_spend(where.data))
    found = {(one["scope"], one["unit"]): one for one in zoea("stats", "--json").json["budgets"]}
    mysis, message = found["mysis", "tokens"], found["message", "tokens"]
    assert (mysis["name"], mysis["used"], mysis["left"]) == ("alpha", 1_500_000, 100_000)
    assert (mysis["pressure"], mysis["setting"]) == ("critical", "budget.mysis")
    assert (message["limit"], message["used"], message["pressure"]) == (4_000_000, 1_500_000, "low")
    assert found["background", "tokens"]["limit"] == 500_000
    said = zoea("stats").out
    assert "alpha" in said
    assert "1,500,000 of 1,600,000 tokens" in said
    assert "critical: raise budget.mysis in its configuration\n" in said, "nothing waits for an approval"


def test_the_pressure_has_a_name(tmp_path: Path) -> None:
    asyncio.run(_spend(tmp_path))
    words = {}
    for limit in (4_000_000, 2_500_000, 1_900_000, 1_600_000):
        settings = Settings.model_validate({"budget": {"swarm_per_day": limit}})
        words[limit] = read_budgets(tmp_path / "zoea.db", settings, 1_700_000_000_000_000)[0].pressure
    assert list(words.values()) == [Pressure.LOW, Pressure.MEDIUM, Pressure.HIGH, Pressure.CRITICAL]


def test_estimates_are_compared_with_what_was_reported(tmp_path: Path) -> None:
    asyncio.run(_spend(tmp_path))
    [one] = read_calibrations(tmp_path / "zoea.db")
    assert (one.factor, one.samples, one.reported) == (2.0, 1, 900_000)
    assert one.largest_error > 0.9


def test_stats_report_the_calibration_and_the_budgets(zoea: Zoea) -> None:
    where = places(configured=False)
    where.make_data()
    asyncio.run(_spend(where.data))
    said = zoea("stats").out
    assert "900,000 tokens reported for" in said
    assert "estimates are multiplied by 2.00, learnt from 1 (used from 3 on)" in said
    found = zoea("stats", "--json").json
    assert found["calibrations"][0]["factor"] == 2.0
    assert {one["scope"] for one in found["budgets"]} == {"day", "background", "mysis", "message"}
