"""A hard budget under 50 parallel myses: never exceeded within reservations, and used up before a refusal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.swarm.harness import Swarm, call, swarm
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.request import Answer, ModelRequest, StreamItem
from zoea.model.values import Usage
from zoea.settings.schema import Settings
from zoea.swarm.turn.turn_types import TurnPhase

MYSES = 50
LIMIT = 400_000
OUTPUT = 1000
BUDGET = {"swarm_per_day": LIMIT, "token_budget_per_agent": 5000, "max_output_tokens": OUTPUT}
SETTINGS = Settings.model_validate(
    {
        "budget": BUDGET,
        "swarm": {"max_myses": MYSES},
        "turn": {"max_iterations": 1000},
        "loop": {"exempt": ["*"]},
        "context": {"keep_turns": 0, "recall_items": 0},
    }
)


SETTLED = (TurnPhase.RESERVING, TurnPhase.RESTING, TurnPhase.HELD)


class ParallelModel(ScriptedProvider):
    """Answers with calls, several requests at once, and uses a share of what was reserved.

    Attributes:
        settled: The tokens used by each answer, in order.
    """

    def __init__(self, use: float) -> None:
        self._numbers = iter(range(1_000_000))
        super().__init__(self._answer, metered=True)
        self._use = use
        self.settled: list[int] = []

    def _answer(self, request: ModelRequest) -> Answer:
        reserved = request.estimated_tokens + int(request.estimated_tokens * 0.05) + OUTPUT
        used = int(reserved * self._use)
        self.settled.append(used)
        usage = Usage(input_tokens=used - 10, output_tokens=10)
        return Answer(calls=(call("act", f"n{next(self._numbers)}"),), usage=usage)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        for _ in range(3):  # others reserve while this one is in flight
            await asyncio.sleep(0)
        async for item in super().stream(request):
            yield item


async def spend_all(s: Swarm) -> None:
    """Let all myses work until the swarm is held and nothing is in flight."""
    for number in range(MYSES):
        await s.commander.create(f"m{number}", start=False)
    await s.commander.broadcast("work")
    await s.until(lambda: s.commander.swarm.hold_switch.swarm, within=120)
    drivers = [s.commander.swarm.runner(f"m{number}").driver for number in range(MYSES)]
    async with asyncio.timeout(60):
        while not all(driver is None or driver.phase in SETTLED for driver in drivers) or await s.value(
            "SELECT count(*) FROM request WHERE state = 'reserved'"
        ):
            await s.run_due()


async def read_spend(s: Swarm) -> dict[str, Any]:
    [row] = await s.rows("SELECT used_tokens, reserved_tokens FROM spend WHERE scope = 'swarm'")
    rows = await s.rows("SELECT coalesce(sum(input_tokens + output_tokens), 0) AS used FROM request")
    assert row["used_tokens"] == rows[0]["used"]
    assert row["reserved_tokens"] == 0
    return dict(row)


@pytest.mark.parametrize("use", [0.7, 1.0])
async def test_usage_within_reservations_never_exceeds_the_limit_and_fills_it_before_a_refusal(
    tmp_path: Path, use: float
) -> None:
    async with swarm(tmp_path, provider=ParallelModel(use), settings=SETTINGS) as s:
        await spend_all(s)
        used = (await read_spend(s))["used_tokens"]
        assert LIMIT * 0.9 <= used <= LIMIT
        assert await s.value("SELECT count(*) FROM request WHERE state = 'reserved'") == 0
        assert "tokens used today, and the next request may take" in s.commander.swarm.hold_switch.reason


async def test_usage_of_twice_the_reservation_exceeds_by_no_more_than_the_calls_in_flight_at_the_crossing(
    tmp_path: Path,
) -> None:
    async with swarm(tmp_path, provider=ParallelModel(2.0), settings=SETTINGS) as s:
        await spend_all(s)
        used = (await read_spend(s))["used_tokens"]
        rows = await s.rows(
            "SELECT created_at, ended_at, id, reserved_tokens, input_tokens + output_tokens AS used FROM request"
            " WHERE state = 'settled' ORDER BY id"
        )
        events = await s.rows("SELECT id, data FROM event WHERE kind LIKE 'budget.%' ORDER BY id")
        assert any(json.loads(event["data"])["scope"] == "swarm" for event in events)
        # None is reserved once the limit is crossed, so those in flight then are among the last ones reserved.
        in_flight = rows[-MYSES:]
        assert used > LIMIT * 0.9
        assert used - LIMIT <= sum(row["used"] - row["reserved_tokens"] for row in in_flight)
