"""What outlives the process: waits, nudges in vain, and what the end of a turn makes of its mysis."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.llm_clock import HandClock
from tests.swarm.harness import Swarm, call, script, swarm
from zoea.model.enums import Activity, DeliveryMode, ErrorClass, MysisState
from zoea.model.errors import ProviderError
from zoea.model.request import Answer, AnswerCall
from zoea.model.values import COMMANDER, Delivery
from zoea.settings.schema import Settings
from zoea.swarm import life as lf
from zoea.swarm.life import BREAKER_OPEN
from zoea.swarm.live_view import LiveMysis
from zoea.swarm.persistence import message_ops
from zoea.swarm.runner import MysisRunner
from zoea.swarm.turn.turn_runner import TurnClosing

WAIT = Answer(calls=(AnswerCall("zoea_wait", json.dumps({"seconds": 60, "reason": "the ore is far"})),))
FAR = Answer(calls=(AnswerCall("zoea_wait", json.dumps({"seconds": 420, "reason": "the ore is far"})),))
SILENT = Answer()
START = 1_700_000_000_000_000


async def alike(s: Swarm, name: str = "alpha") -> lf.StoredLife:
    """Return what the life machine knows of a mysis. Check that its row says the same."""
    life = s.commander.swarm.runner(name).life
    [row] = await s.rows("SELECT * FROM mysis WHERE name = ?", name)
    wait = json.loads(row["wait"]) if row["wait"] else {}
    stored = lf.StoredLife(
        row["encouragement"],
        wait.get("until"),
        wait.get("reason", ""),
        row["nothing_new"],
        row["goal_reached_at"] is not None,
    )
    assert stored == lf.stored_life(life).in_wall_time(s.clock.ahead)
    assert row["state"] == life.state
    return stored


async def nudged_in_vain(s: Swarm, times: int) -> None:
    runner = s.commander.swarm.runner("alpha")
    await s.until(lambda: runner.is_settled)
    row = s.commander.swarm.services.view.row(runner.mysis.id)
    for turns in range(row.turns + 1, row.turns + times + 1):
        s.clock.by(30)
        await s.until(partial(_has_had, runner, row, turns))


def _has_had(runner: MysisRunner, row: LiveMysis, turns: int) -> bool:
    return row.turns == turns and runner.is_settled


async def test_the_row_says_what_the_life_machine_knows_at_every_step(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(WAIT, SILENT, SILENT, SILENT, SILENT, Answer(text="here"))) as s:
        await s.commander.create("alpha", start=False)
        assert await alike(s) == lf.StoredLife()
        await s.ask("alpha", "go")
        assert await alike(s) == lf.StoredLife(0, START + 60_000_000, "the ore is far")
        s.clock.by(30)
        await nudged_in_vain(s, 1)
        assert await alike(s) == lf.StoredLife(1, nothing_new=1)
        await nudged_in_vain(s, 1)
        assert await alike(s) == lf.StoredLife(2, nothing_new=2)
        await s.commander.hold(True)
        await s.commander.send("alpha", "still there?")
        await s.until(lambda: s.commander.swarm.runner("alpha").life.pending)
        assert await alike(s) == lf.StoredLife(0)
        await s.commander.hold(False)
        await s.settled()
        await s.commander.stop("alpha")
        assert await alike(s) == lf.StoredLife()


async def test_a_wait_goes_on_after_a_restart_and_its_end_nudges_at_once(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(WAIT)) as s:
        await s.ask("alpha", "go")
    clock = HandClock(START + 10_000_000)
    async with swarm(tmp_path, script(Answer(text="there")), clock=clock) as s:
        assert (await alike(s)).wait_until == START + 60_000_000
        await s.commander.start_all()
        view = await s.commander.mysis("alpha")
        assert (view.waiting_until, view.waiting_for) == (START + 60_000_000, "the ore is far")
        clock.by(49)
        await s.settled()
        assert s.provider.calls == 0
        clock.by(1)
        await s.until(lambda: s.provider.calls == 1)
        await s.settled()
        assert await alike(s) == lf.StoredLife(nothing_new=1)


async def nudged_at(s: Swarm, until: int) -> list[int]:
    """Return the seconds after START at which its model was called.

    The clock goes on in steps of ten.
    """
    runner, calls, found = s.commander.swarm.runner("alpha"), s.provider.calls, []
    while (second := (s.clock.now() - START) // 1_000_000) < until:
        s.clock.by(10)
        await s.until(lambda: runner.is_settled)
        if s.provider.calls > calls:
            calls = s.provider.calls
            found.append(second + 10)
    return found


async def test_a_long_wait_outlasts_its_nudges_and_a_restart_between_them(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(FAR, Answer(text="still on my way"))) as s:
        await s.ask("alpha", "go")
        assert await nudged_at(s, 250) == [120, 240]
        assert await alike(s) == lf.StoredLife(0, START + 420_000_000, "the ore is far")
        view = await s.commander.mysis("alpha")
        assert (view.activity, view.waiting_until) == (Activity.WAITING, START + 420_000_000)
    clock = HandClock(START + 260_000_000)
    async with swarm(tmp_path, script(Answer(text="still on my way")), clock=clock) as s:
        await s.commander.start_all()
        assert await nudged_at(s, 460) == [380, 420, 450]
        assert await alike(s) == lf.StoredLife(nothing_new=2)


async def test_a_nudged_turn_shows_no_wait_and_keeps_it_over_a_crash(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(FAR, Answer(text="still on my way"))) as s:
        await s.ask("alpha", "go")
        block = s.provider.block(after=0)
        s.clock.by(120)
        await block.reached.wait()
        view = await s.commander.mysis("alpha")
        assert (view.activity, view.waiting_until) == (Activity.LLM, None)
        assert (await alike(s)).wait_until == START + 420_000_000
    async with swarm(tmp_path, script(Answer(text="still")), clock=HandClock(START + 130_000_000)) as s:
        await s.commander.start_all()
        await s.settled()
        assert await s.rows("SELECT outcome FROM turn") == [{"outcome": "answered"}] * 2
        assert await alike(s) == lf.StoredLife(0, START + 420_000_000, "the ore is far")


async def test_a_steer_into_a_nudged_turn_ends_the_wait(tmp_path: Path) -> None:
    replies = script(FAR, Answer(calls=(call("act", "one"),)), Answer(text="heard"))
    async with swarm(tmp_path, replies) as s:
        await s.ask("alpha", "go")
        block = s.provider.block(after=0)
        s.clock.by(120)
        await block.reached.wait()
        await s.commander.send("alpha", "come back", mode=DeliveryMode.STEER)
        block.release()
        await s.settled()
        assert s.sent()[-1][-1] == ("user", "come back")
        assert await alike(s) == lf.StoredLife()


async def test_nudges_in_vain_go_on_counting_after_a_restart_and_the_third_opens_the_breaker(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(SILENT)) as s:
        await s.commander.create("alpha")
        await nudged_in_vain(s, 2)
    async with swarm(tmp_path, script(SILENT)) as s:
        assert await alike(s) == lf.StoredLife(2, nothing_new=2)
        await s.commander.start_all()
        await nudged_in_vain(s, 1)
        assert s.sent()[0][-1][1].startswith("URGENT")
        assert (s.state(), (await s.commander.mysis("alpha")).state_reason) == (MysisState.IDLE, BREAKER_OPEN)


async def test_a_start_by_a_person_resets_nudges_and_wait(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(SILENT)) as s:
        await s.commander.create("alpha")
        await nudged_in_vain(s, 2)
    async with swarm(tmp_path, script(SILENT)) as s:
        await s.commander.start("alpha")
        assert await alike(s) == lf.StoredLife()


async def test_the_nudges_of_the_last_hour_count_after_a_restart_until_a_person_stops_it(tmp_path: Path) -> None:
    settings = Settings.model_validate({"nudge": {"max_per_hour": 2}})
    async with swarm(tmp_path, script(Answer(text="yes")), settings=settings) as s:
        await s.commander.create("alpha")
        await nudged_in_vain(s, 2)
    async with swarm(tmp_path, script(Answer(text="yes")), settings=settings, clock=HandClock(START + 70_000_000)) as s:
        await s.commander.start_all()
        s.clock.by(30)
        await s.until(lambda: s.state() is MysisState.IDLE)
        assert "nudged 2 times within an hour" in (await s.commander.mysis("alpha")).state_reason
        assert s.provider.calls == 0
        await s.commander.stop("alpha")
    clock = HandClock(START + 200_000_000)
    async with swarm(tmp_path, script(Answer(text="yes")), settings=settings, clock=clock) as s:
        await s.commander.start("alpha")
        await nudged_in_vain(s, 1)
        assert s.provider.calls == 1


async def test_the_nudges_of_the_last_hour_count_after_a_mysis_was_configured(tmp_path: Path) -> None:
    settings = Settings.model_validate({"nudge": {"max_per_hour": 2}})
    async with swarm(tmp_path, script(Answer(text="yes")), settings=settings) as s:
        await s.commander.create("alpha")
        await nudged_in_vain(s, 2)
        s.clock.by(30)
        await s.until(lambda: s.state() is MysisState.IDLE)
        before = s.commander.swarm.runner("alpha").life
        await s.commander.configure("alpha", tags=("slow",))
        after = s.commander.swarm.runner("alpha").life
        assert (after.nudged_at, after.retry_at) == (before.nudged_at, before.retry_at)


@pytest.mark.parametrize(
    ("reply", "state", "reason"),
    [
        (Answer(calls=(call("act", "same"),)), MysisState.STOPPED, "loop"),
        (ProviderError("no", kind=ErrorClass.BAD_REQUEST), MysisState.ERRORED, "The model's provider failed"),
        (ProviderError("no", kind=ErrorClass.AUTH), MysisState.ERRORED, "The model's provider failed"),
    ],
    ids=["loop", "failed for good", "broke off"],
)
async def test_the_state_is_stored_in_the_op_that_ends_the_turn(
    tmp_path: Path, reply: Answer | ProviderError, state: MysisState, reason: str
) -> None:
    async with swarm(tmp_path, script(reply)) as s:
        await s.tell("alpha", "go")
        await s.until(lambda: s.state() is state)
        ended = await s.rows(
            "SELECT created_at, id, kind FROM event WHERE kind IN ('turn.ended', 'turn.broke_off', 'mysis.state')"
            " ORDER BY id DESC LIMIT 2"
        )
        assert [row["kind"].split(".")[0] for row in ended] == ["mysis", "turn"]
        assert ended[0]["id"] == ended[1]["id"] + 1
        assert (await s.commander.mysis("alpha")).state_reason == reason
        await alike(s)


async def test_a_message_that_comes_while_the_breaker_opens_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with swarm(tmp_path, script(SILENT, SILENT, SILENT, SILENT, SILENT, SILENT, Answer(text="yes"))) as s:
        await s.commander.create("alpha")
        await nudged_in_vain(s, 2)
        runner = s.commander.swarm.runner("alpha")
        saying = message_ops.OutgoingMessage("are you there?", COMMANDER, DeliveryMode.QUEUE)
        store_end = runner._store_end
        waiting: list[Delivery] = []

        async def late(turn: Any, closing: TurnClosing) -> Any:
            stored = await store_end(turn, closing)
            assert stored is not None
            _, mysis, _ = stored
            assert mysis is not None
            assert mysis.state is MysisState.IDLE
            runner.arrived(waiting.pop())
            return stored

        block = s.provider.block(after=0)
        s.clock.by(30)
        await block.reached.wait()
        waiting.extend((await s.store.write(lambda c: message_ops.send(c, 1, saying, 3, 0))).deliveries)
        monkeypatch.setattr(runner, "_store_end", late)
        block.release()
        await s.until(lambda: not waiting)
        monkeypatch.undo()
        await s.settled()
        assert s.state() is MysisState.RUNNING
        assert s.sent()[-1][-1] == ("user", "are you there?")
        assert await s.value("SELECT count(*) FROM session WHERE ended_at IS NULL") == 1
        await alike(s)


async def test_a_message_from_afar_that_comes_while_a_nudge_fails_sets_the_count_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with swarm(tmp_path, script(SILENT)) as s:
        await s.commander.create("alpha")
        runner = s.commander.swarm.runner("alpha")
        store_end = runner._store_end

        async def late(turn: Any, closing: TurnClosing) -> Any:
            stored = await store_end(turn, closing)
            runner.tell(lf.Arrived(s.clock.uptime(), lf.Pending(99, DeliveryMode.QUEUE, 9, False)))
            return stored

        monkeypatch.setattr(runner, "_store_end", late)
        await nudged_in_vain(s, 1)
        assert await alike(s) == lf.StoredLife(0)


async def test_a_stop_that_comes_while_a_turn_ends_follows_the_stored_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with swarm(tmp_path, script(Answer(text="done"))) as s:
        await s.commander.create("alpha")
        runner = s.commander.swarm.runner("alpha")
        store_end = runner._store_end
        stops: list[asyncio.Future[None]] = []

        async def end_and_stop(turn: Any, closing: TurnClosing) -> Any:
            stops.append(runner.tell(lf.Stop(s.clock.uptime())))
            return await store_end(turn, closing)

        monkeypatch.setattr(runner, "_store_end", end_and_stop)
        await s.commander.send("alpha", "hello")
        await s.until(lambda: stops)
        await stops[0]
        assert s.state() is MysisState.STOPPED
        assert await s.rows("SELECT outcome, broke_off FROM turn") == [{"outcome": "answered", "broke_off": None}]
        kinds = await s.rows("SELECT kind FROM event ORDER BY id DESC LIMIT 2")
        assert [row["kind"] for row in kinds] == ["mysis.state", "turn.ended"]
        await alike(s)


async def test_a_runner_that_is_closed_while_its_turn_ends_stores_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with swarm(tmp_path, script(Answer(text="done"))) as s:
        await s.commander.create("alpha")
        runner = s.commander.swarm.runner("alpha")
        store_end = runner._store_end
        closes: list[asyncio.Task[None]] = []

        async def close_and_end(turn: Any, closing: TurnClosing) -> Any:
            closes.append(asyncio.create_task(runner.close()))
            return await store_end(turn, closing)

        monkeypatch.setattr(runner, "_store_end", close_and_end)
        await s.commander.send("alpha", "hello")
        await s.until(lambda: closes)
        async with asyncio.timeout(2):
            await closes[0]
        assert await s.value("SELECT outcome FROM turn") == "answered"
        assert await s.value("SELECT state FROM mysis") == "running"
