"""What `memory.keep_memories` removes leaves the sums of budgets as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.swarm.harness import Swarm, call, swarm
from tests.swarm.test_mission_budgets import HARD
from zoea.model.request import Answer, ModelRequest
from zoea.model.values import Usage
from zoea.runtime.maintenance import apply_retention
from zoea.store import retention
from zoea.store.retention import RetentionRule

TOTAL = 40_000


async def sums(s: Swarm) -> list[object]:
    """Everything that budgets, prices and estimates count."""
    found: list[object] = []
    for query in (
        "SELECT scope, scope_id, day, used_tokens, reserved_tokens, used_micros, unpriced FROM spend ORDER BY 1, 2, 3",
        "SELECT mysis_id, requests, tokens, tool_calls, cost_micros FROM tally",
        "SELECT provider, model, ratio, samples FROM calibration",
    ):
        found += [tuple(row.values()) for row in await s.rows(query)]
    return found


async def test_removed_turns_still_count_as_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "LEAST", 4)
    numbers = iter(range(10_000))

    def works(request: ModelRequest) -> Answer:
        number = next(numbers)
        usage = Usage(input_tokens=700, output_tokens=300)
        return Answer(calls=(call("act", f"n{number}"),), usage=usage) if number % 4 else Answer(text="ok", usage=usage)

    async with swarm(tmp_path, works, settings=HARD) as s:
        await s.commander.create("alpha", start=False)
        for number in range(5):
            await s.commander.send("alpha", f"work {number}", limits=json.dumps({"token_budget_total": TOTAL}))
            await s.settled()
        before = await sums(s)
        spent = await s.value("SELECT sum(input_tokens + output_tokens) FROM request")
        assert await s.value("SELECT used_tokens FROM spend WHERE scope = 'mysis'") == spent
        removed = await apply_retention(s.store, RetentionRule(memories=4))
        assert removed.turns >= 2
        left = await s.value("SELECT sum(input_tokens + output_tokens) FROM request")
        assert left < spent
        assert await sums(s) == before
    async with swarm(tmp_path, works, settings=HARD) as again:
        assert await sums(again) == before
        assert again.commander.swarm.runner("alpha").mysis.id == 1
        assert await again.value("SELECT used_tokens FROM spend WHERE scope = 'mysis'") == spent
