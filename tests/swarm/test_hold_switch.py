"""A hold during a turn: nothing begins, nothing is spent, and no deadline runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fakes.llm_clock import HandClock
from tests.faults import database_checker
from tests.swarm.harness import Swarm, call, script, swarm
from zoea.model.enums import Activity, DeliveryMode, ErrorClass, MysisState
from zoea.model.errors import ProviderError
from zoea.model.request import Answer, ModelRequest, RequestHeld, RequestSent
from zoea.model.values import Usage
from zoea.settings.schema import Settings
from zoea.swarm.persistence.restore import NEVER_RAN

LATER = 1_700_003_600_000_000
ACTS = Answer(calls=(call("act", "one"),))


def is_in(s: Swarm, phase: str) -> bool:
    driver = s.commander.swarm.runner("alpha").driver
    return driver is not None and driver.phase == phase


def is_kept_waiting(s: Swarm) -> bool:
    driver = s.commander.swarm.runner("alpha").driver
    return driver is not None and driver._model is not None and driver._model.is_unsent


async def waits_for_the_lift(s: Swarm) -> None:
    await s.until(lambda: s.commander.swarm.live_view.row(1).activity is Activity.WAITING)


async def time_goes_by(s: Swarm, seconds: int) -> None:
    """In steps, as the watch over a turn sees it."""
    for _ in range(0, seconds, 20):
        s.clock.by(20)
        await s.store.write(lambda conn: conn.now())


async def in_an_answer(s: Swarm) -> None:
    """Alpha's model has begun to answer, and the swarm is on hold."""
    block = await s.begin_call("alpha", "go")
    await s.commander.hold(True)
    block.release()


async def in_a_tool(s: Swarm) -> None:
    """Alpha's first call is done, and the swarm is on hold."""
    block = s.provider.block(after=0)
    await s.tell("alpha", "go")
    await block.reached.wait()
    s.peer.gates["act"].clear()
    block.release()
    await s.until(lambda: s.peer.running == 1)
    await s.commander.hold(True)
    s.peer.gates["act"].set()


async def test_after_a_long_hold_a_call_that_waited_runs_and_a_slow_model_is_waited_for(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(ACTS, Answer(text="done at last"))) as s:
        await in_an_answer(s)
        await waits_for_the_lift(s)
        assert await s.rows("SELECT state, started_at FROM tool_call") == [{"state": "pending", "started_at": None}]
        await time_goes_by(s, 600)
        assert s.peer.seen == []
        slow = s.provider.block()
        await s.commander.hold(False)
        await slow.reached.wait()
        assert s.peer.seen == [("act", "one")]
        await time_goes_by(s, 200)
        assert s.state() is MysisState.RUNNING
        slow.release()
        await s.settled()
        assert await s.rows("SELECT outcome, attempt FROM turn") == [{"outcome": "answered", "attempt": 1}]


async def test_after_a_long_hold_the_next_request_is_made_and_a_slow_model_is_waited_for(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(ACTS, Answer(text="done at last"))) as s:
        s.peer.gates["act"] = asyncio.Event()
        await in_a_tool(s)
        await waits_for_the_lift(s)
        s.clock.by(600)
        slow = s.provider.block()
        await s.commander.hold(False)
        await slow.reached.wait()
        await time_goes_by(s, 200)
        slow.release()
        await s.settled()
        assert await s.rows("SELECT outcome, attempt FROM turn") == [{"outcome": "answered", "attempt": 1}]


@pytest.mark.parametrize("seconds", [100, 600])
async def test_retry_after_counts_for_no_deadline(tmp_path: Path, seconds: int) -> None:
    busy = ProviderError("429 from the test", kind=ErrorClass.TRANSIENT, retry_after=seconds)
    async with swarm(tmp_path, script(busy, Answer(text="now"))) as s:
        await s.tell("alpha", "hello")
        await s.until(lambda: is_in(s, "resting"))
        await time_goes_by(s, seconds - 20)
        assert s.provider.calls == 1
        slow = s.provider.block()
        await time_goes_by(s, 20)
        await slow.reached.wait()
        await time_goes_by(s, 200)
        slow.release()
        await s.settled()
        assert await s.rows("SELECT outcome, attempt FROM turn") == [{"outcome": "answered", "attempt": 1}]
        assert s.provider.calls == 2


async def test_a_call_that_a_hold_kept_back_never_ran_as_its_result_says_after_a_restart(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(ACTS)) as s:
        await in_an_answer(s)
        await waits_for_the_lift(s)
    async with swarm(tmp_path, script(Answer(text="I see")), clock=HandClock(LATER)) as s:
        await s.commander.start_all()
        assert s.provider.calls == 0
        await s.commander.hold(False)
        await s.settled()
        assert s.peer.seen == []
        assert s.sent()[0][-1] == ("tool", NEVER_RAN)
        assert await s.value("SELECT state FROM tool_call") == "cancelled"


async def test_on_hold_no_request_is_reserved_and_a_steer_joins_the_one_after_it(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(ACTS, Answer(text="done"))) as s:
        s.peer.gates["act"] = asyncio.Event()
        await in_a_tool(s)
        await waits_for_the_lift(s)
        assert [row["state"] for row in await s.rows("SELECT state FROM request")] == ["settled"]
        assert await s.value("SELECT sum(reserved_tokens) FROM spend") == 0
        await s.commander.send("alpha", "and then home", mode=DeliveryMode.STEER)
        await s.commander.hold(False)
        await s.settled()
        assert s.sent()[1][-1] == ("user", "and then home")


async def test_a_request_in_backpressure_is_released_when_a_hold_comes(tmp_path: Path) -> None:
    settings = Settings.model_validate({"budget": {"token_budget_per_agent": 5000, "token_budget_per_task": 10_000}})
    costly = Answer(calls=(call("act", "one"),), usage=Usage(input_tokens=9_600, output_tokens=0))

    def reply(request: ModelRequest) -> Answer:
        return costly if len(request.messages) == 2 else Answer(text="done")

    async with swarm(tmp_path, reply, settings=settings) as s:
        await s.tell("alpha", "go")
        await s.until(lambda: is_in(s, "resting"))
        await s.commander.hold(True)
        s.clock.by(5)
        await s.until(lambda: is_in(s, "held"))
        states = "SELECT attempt, state, error_class FROM request ORDER BY id"
        given_back = {"attempt": 1, "state": "released", "error_class": "cancelled"}
        assert (await s.rows(states))[1:] == [given_back]
        assert await s.value("SELECT sum(reserved_tokens) FROM spend") == 0
    async with swarm(tmp_path, reply, settings=settings, clock=HandClock(LATER)) as s:
        await s.commander.start_all()
        await s.commander.hold(False)
        await s.until(lambda: is_in(s, "resting"))
        s.clock.by(5)
        await s.settled()
        assert [row["state"] for row in await s.rows(states)] == ["settled", "released", "settled"]
        assert (await s.commander.mysis("alpha")).errors == 0
        assert await s.value("SELECT used_tokens < 12000 FROM spend WHERE scope = 'mysis'") == 1
    database_checker.at_rest(s.path)


async def test_a_call_in_flight_all_through_a_long_hold_is_waited_for_afterwards_too(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(ACTS, Answer(text="done"))) as s:
        s.peer.gates["act"] = asyncio.Event()
        await s.tell("alpha", "go")
        await s.until(lambda: s.peer.running == 1)
        await s.commander.hold(True)
        await time_goes_by(s, 600)
        await s.commander.hold(False)
        await time_goes_by(s, 100)
        s.peer.gates["act"].set()
        await s.settled()
        assert await s.rows("SELECT outcome, attempt FROM turn") == [{"outcome": "answered", "attempt": 1}]


async def test_what_the_provider_kept_back_when_the_hold_came_is_not_sent_and_not_paid_for(tmp_path: Path) -> None:
    busy = (RequestHeld("2 requests are under way"), RequestSent(), Answer(text="done"))
    async with swarm(tmp_path, lambda _: busy) as s:
        at_the_gate = await s.begin_call("alpha", "go")
        await s.until(lambda: is_kept_waiting(s))
        await s.commander.hold(True)
        await s.until(lambda: is_in(s, "held"))
        assert at_the_gate.was_closed
        states = "SELECT attempt, state, error_class FROM request ORDER BY id"
        assert await s.rows(states) == [{"attempt": 1, "state": "released", "error_class": "cancelled"}]
        assert await s.value("SELECT sum(reserved_tokens + used_tokens) FROM spend") == 0
        await s.commander.hold(False)
        await s.settled()
        assert [(row["attempt"], row["state"]) for row in await s.rows(states)] == [(1, "released"), (1, "settled")]
        assert await s.rows("SELECT outcome, attempt FROM turn") == [{"outcome": "answered", "attempt": 1}]


async def test_a_request_sent_before_the_hold_is_answered(tmp_path: Path) -> None:
    async with swarm(
        tmp_path, lambda _: (RequestHeld("2 requests are under way"), RequestSent(), Answer(text="done"))
    ) as s:
        on_its_way = s.provider.block(after=2)
        await s.tell("alpha", "go")
        await on_its_way.reached.wait()
        await s.until(lambda: not is_kept_waiting(s))
        await s.commander.hold(True)
        on_its_way.release()
        await s.settled()
        assert await s.value("SELECT outcome FROM turn") == "answered"
        assert [row["state"] for row in await s.rows("SELECT state FROM request")] == ["settled"]


async def test_a_request_that_meets_a_full_provider_on_hold_waits_for_the_lift_instead(tmp_path: Path) -> None:
    async with swarm(
        tmp_path, lambda _: (RequestHeld("2 requests are under way"), RequestSent(), Answer(text="done"))
    ) as s:
        before = s.provider.block(after=0)
        await s.tell("alpha", "go")
        await before.reached.wait()
        await s.commander.hold(True)
        before.release()
        await s.until(lambda: is_in(s, "held"))
        await s.commander.hold(False)
        await s.settled()
        assert await s.value("SELECT outcome FROM turn") == "answered"


async def test_a_stop_while_the_provider_keeps_a_request_back_costs_nothing(tmp_path: Path) -> None:
    async with swarm(
        tmp_path, lambda _: (RequestHeld("2 requests are under way"), RequestSent(), Answer(text="done"))
    ) as s:
        await s.begin_call("alpha", "go")
        await s.until(lambda: is_kept_waiting(s))
        await s.commander.stop("alpha")
        assert [row["state"] for row in await s.rows("SELECT state FROM request")] == ["released"]
        assert await s.value("SELECT sum(reserved_tokens + used_tokens) FROM spend") == 0
        assert (await s.commander.mysis("alpha")).errors == 0
