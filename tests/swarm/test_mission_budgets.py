"""A total for all turns that one message opens: shares, waiting, refusal."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.swarm.harness import call, script, swarm
from tests.swarm.test_budgets import GatedProvider
from zoea.model.enums import MysisState
from zoea.model.request import Answer, AnswerCall, ModelRequest
from zoea.model.values import Usage
from zoea.settings.schema import Settings

HARD = Settings.model_validate(
    {
        "budget": {"enforcement": "hard", "token_budget_per_agent": 3000, "max_output_tokens": 500},
        "turn": {"max_iterations": 30},
        "loop": {"exempt": ["*"]},
    }
)


def total(tokens: int) -> str:
    return json.dumps({"token_budget_total": tokens})


async def test_each_turn_of_a_broadcast_gets_an_equal_share_of_what_is_left(tmp_path: Path) -> None:
    gate = asyncio.Event()
    provider = GatedProvider(script(Answer(text="done", usage=Usage(input_tokens=900, output_tokens=100))), gate)
    async with swarm(tmp_path, provider=provider, settings=HARD) as s:
        for number in range(4):
            await s.commander.create(f"m{number}", start=False)
        await s.commander.broadcast("all of you", limits=total(40_000))
        await s.until(lambda: all(s.commander.swarm.runner(f"m{number}").driver for number in range(4)))
        gate.set()
        for number in range(4):
            await s.settled(f"m{number}")
        rows = await s.rows("SELECT frozen ->> 'task_tokens' AS share, frozen ->> 'mission_id' AS id FROM turn")
        assert {row["id"] for row in rows} == {1}
        assert all(row["share"] <= 10_000 for row in rows)
        assert max(row["share"] for row in rows) == 10_000
        [spend] = await s.rows("SELECT scope_id, used_tokens, reserved_tokens FROM spend WHERE scope = 'mission'")
        assert spend == {"scope_id": 1, "used_tokens": 4000, "reserved_tokens": 0}


async def test_what_finished_turns_left_goes_to_the_next(tmp_path: Path) -> None:
    answer = Answer(text="done", usage=Usage(input_tokens=900, output_tokens=100))
    async with swarm(tmp_path, script(answer), settings=HARD) as s:
        await s.create("alpha", "beta")
        await s.commander.broadcast("both", limits=total(20_000))
        for name in ("alpha", "beta"):
            await s.settled(name)
        await s.commander.send("alpha", "alone", limits=total(20_000))
        await s.settled()
        share = await s.value("SELECT frozen ->> 'task_tokens' FROM turn ORDER BY id DESC LIMIT 1")
        assert share == 20_000


@pytest.mark.parametrize("myses", [1, 3])
async def test_a_hard_total_is_never_exceeded_while_usage_stays_within_reservations(tmp_path: Path, myses: int) -> None:
    numbers = iter(range(10_000))

    def busy(_: object) -> Answer:
        usage = Usage(input_tokens=700, output_tokens=300)
        return Answer(calls=(call("act", f"n{next(numbers)}"),), usage=usage)

    async with swarm(tmp_path, busy, settings=HARD) as s:
        for number in range(myses):
            await s.commander.create(f"m{number}", start=False)
        await s.commander.broadcast("work", limits=total(20_000))
        for number in range(myses):
            await s.settled(f"m{number}")
        outcomes = {row["outcome"] for row in await s.rows("SELECT outcome FROM turn")}
        assert outcomes == {"budget"}
        used = await s.value("SELECT used_tokens FROM spend WHERE scope = 'mission'")
        assert used <= 20_000
        assert used == await s.value("SELECT sum(input_tokens + output_tokens) FROM request")


async def test_the_lowest_total_of_several_prompts_counts(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with swarm(tmp_path, provider=GatedProvider(script(Answer(text="done")), gate), settings=HARD) as s:
        await s.tell("alpha", "opens a turn")
        await s.until(lambda: s.commander.swarm.runner("alpha").driver is not None)
        for tokens in (30_000, 20_000, 25_000):
            await s.commander.send("alpha", f"of {tokens}", limits=total(tokens))
        gate.set()
        await s.settled()
        [row] = await s.rows(
            "SELECT frozen ->> 'mission_tokens' AS total, frozen ->> 'mission_id' AS id FROM turn"
            " WHERE frozen ->> 'mission_id' IS NOT NULL"
        )
        assert row == {"total": 20_000, "id": 3}


SOFT = HARD.model_copy(update={"budget": HARD.budget.model_copy(update={"enforcement": "soft"})})


async def test_a_soft_total_allows_one_last_request_that_says_so(tmp_path: Path) -> None:
    seen: list[ModelRequest] = []

    def busy(request: ModelRequest) -> Answer:
        seen.append(request)
        usage = Usage(input_tokens=700, output_tokens=300)
        if any("allows no request after this one" in message.content for message in request.messages):
            return Answer(text="what I know", usage=usage)
        return Answer(calls=(call("act", f"n{len(seen)}"),), usage=usage)

    async with swarm(tmp_path, busy, settings=SOFT) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.send("alpha", "work", limits=total(4_000))
        await s.settled()
        [turn] = await s.rows("SELECT id, outcome FROM turn")
        assert turn["outcome"] == "answered"
        assert 2 <= len(seen) <= 5
        used = await s.value("SELECT used_tokens FROM spend WHERE scope = 'mission'")
        assert used == 1000 * len(seen)
        assert used <= 4_000 + 1_000
        [note] = await s.rows("SELECT kind, content FROM turn_note")
        assert note["kind"] == "budget"
        assert "(4,000 tokens)" in note["content"]


async def test_a_turn_that_calls_tools_in_its_last_request_ends_without_running_them(tmp_path: Path) -> None:
    seen: list[ModelRequest] = []

    def stubborn(request: ModelRequest) -> Answer:
        seen.append(request)
        return Answer(calls=(call("act", f"n{len(seen)}"),), usage=Usage(input_tokens=700, output_tokens=300))

    async with swarm(tmp_path, stubborn, settings=SOFT) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.send("alpha", "work", limits=json.dumps({"token_budget_per_task": 50}))
        await s.settled()
        [turn] = await s.rows("SELECT outcome, failure FROM turn")
        assert turn["outcome"] == "budget"
        assert "The token budget of its message is used up" in turn["failure"]
        assert len(seen) == 1  # not even the first fits, so it is the last
        assert [row["state"] for row in await s.rows("SELECT state FROM tool_call")] == ["cancelled"]
        assert s.commander.swarm.runner("alpha").mysis.state is MysisState.RUNNING
        await s.commander.send("alpha", "go on")
        await s.until(lambda: len(seen) > 3)  # without a budget of its own the next message is worked on as before


async def test_a_soft_total_leaves_a_turn_alone_that_reports_its_end_in_the_last_request(tmp_path: Path) -> None:
    def reports(_: ModelRequest) -> Answer:
        done = AnswerCall("zoea_done", json.dumps({"summary": "found it"}))
        return Answer(calls=(done,), usage=Usage(input_tokens=700, output_tokens=300))

    async with swarm(tmp_path, reports, settings=SOFT) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.send("alpha", "work", is_task=True, limits=total(1_000))
        await s.settled()
        assert [row["outcome"] for row in await s.rows("SELECT outcome FROM turn")] == ["answered"]
        assert [row["state"] for row in await s.rows("SELECT state FROM tool_call")] == ["done"]
