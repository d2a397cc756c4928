"""A wall clock that is set moves no wait, retry, nudge or question: each comes after the duration it was meant for."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.llm_clock import HandClock
from tests.swarm.harness import Swarm, call, script, swarm
from zoea.model.enums import ErrorClass, MysisState, Role
from zoea.model.errors import ProviderError, RateExceeded, StoreError, StoreFull
from zoea.model.request import Answer, AnswerCall
from zoea.settings.schema import Settings
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import time_ops
from zoea.swarm.persistence.time_ops import move_times_ahead
from zoea.swarm.rules import SECOND
from zoea.swarm.services import Services
from zoea.swarm.turn.turn_gate import Rank
from zoea.swarm.turn.turn_types import OpStored
from zoea.tools.toolbox import ToolboxSession

HOUR_S = 3600
DAY_S = 86_400
START = 1_700_000_000_000_000
SECONDS = [1, -1, -DAY_S, 400 * DAY_S, *([3600, -3600, DAY_S] if os.environ.get("ZOEA_SOAK") else [])]
"""The quick run sets the clock by less and by more than any duration here, each way."""
JUMPS = pytest.mark.parametrize("jump", SECONDS)
WAIT = Answer(calls=(AnswerCall("zoea_wait", json.dumps({"seconds": 60, "reason": "the ore is far"})),))
BURN = Answer(calls=(call("burn", "it"),))
BUSY = ProviderError("503", kind=ErrorClass.TRANSIENT)
ONE_PLACE = Settings.model_validate({"swarm": {"active_turns": 1}})
NO_RETRIES = Settings.model_validate({"llm": {"retries": 0}})


async def set_clock(s: Swarm, seconds: float) -> None:
    """Set the wall clock, and let the swarm notice it: a second passes."""
    before = s.clock.now()
    s.clock.jump(seconds)
    s.clock.by(1)
    await s.until(lambda: s.clock.now() != before + SECOND)
    await s.run_due()


async def passes(s: Swarm, seconds: int) -> None:
    """Let time pass, with everything that is due second by second."""
    for _ in range(seconds):
        await s.run_due(1)


@JUMPS
async def test_a_retry_after_seconds_comes_after_these_seconds(tmp_path: Path, jump: int) -> None:
    refused = ProviderError("429", kind=ErrorClass.TRANSIENT, retry_after=7)
    async with swarm(tmp_path, script(refused, Answer(text="now"))) as s:
        await s.tell("alpha", "hello")
        runner = s.commander.swarm.runner("alpha")
        await s.until(lambda: runner.driver is not None and runner.driver.phase == "resting")
        await set_clock(s, jump)
        await passes(s, 5)
        assert s.provider.calls == 1
        s.clock.by(1)
        await s.until(lambda: s.provider.calls == 2)


@JUMPS
async def test_a_retry_that_waits_for_its_place_while_the_clock_is_set_is_sent(tmp_path: Path, jump: int) -> None:
    refused = ProviderError("429", kind=ErrorClass.TRANSIENT, retry_after=7)
    async with swarm(tmp_path, script(refused, Answer(text="now")), settings=ONE_PLACE) as s:
        await s.tell("alpha", "hello")
        runner, gate = s.commander.swarm.runner("alpha"), s.commander.swarm.services.gate
        await s.until(lambda: runner.driver is not None and runner.driver.phase == "resting")
        await s.run_due()
        async with gate.place(Rank.OTHER):
            s.clock.by(7)
            await s.until(lambda: gate.waiting == 1)
            await set_clock(s, jump)
        await s.until(lambda: s.provider.calls == 2)


@JUMPS
async def test_a_refusal_that_waits_for_its_place_while_the_clock_is_set_is_retried_in_time(
    tmp_path: Path, jump: int
) -> None:
    refused = ProviderError("429", kind=ErrorClass.TRANSIENT, retry_after=7)
    async with swarm(tmp_path, script(refused, Answer(text="now")), settings=ONE_PLACE) as s:
        block = s.provider.block(after=0)
        await s.tell("alpha", "hello")
        gate = s.commander.swarm.services.gate
        await block.reached.wait()
        async with gate.place(Rank.OTHER):
            block.release()
            await s.until(lambda: gate.waiting == 1)
            await set_clock(s, jump)
        runner = s.commander.swarm.runner("alpha")
        await s.until(lambda: runner.driver is not None and runner.driver.phase == "resting")
        await s.run_due()
        await passes(s, 5)
        assert s.provider.calls == 1
        s.clock.by(1)
        await s.until(lambda: s.provider.calls == 2)


@JUMPS
async def test_a_recovery_comes_after_its_delay_though_the_clock_is_set_while_its_session_closes(
    tmp_path: Path, jump: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing, goes_on, close = asyncio.Event(), asyncio.Event(), ToolboxSession.close

    async def close_late(session: ToolboxSession) -> None:
        closing.set()
        await goes_on.wait()
        await close(session)

    async with swarm(tmp_path, script(BUSY, Answer(text="back")), settings=NO_RETRIES) as s:
        monkeypatch.setattr(ToolboxSession, "close", close_late)
        await s.tell("alpha", "hello")
        await closing.wait()
        await set_clock(s, jump)
        goes_on.set()
        await s.settled()
        assert s.state() is MysisState.ERRORED
        await passes(s, 13)
        assert s.state() is MysisState.ERRORED
        s.clock.by(1)
        await s.until(lambda: s.state() is MysisState.RUNNING)


@JUMPS
async def test_a_recovery_comes_after_its_delay_and_its_stored_time_moves(tmp_path: Path, jump: int) -> None:
    async with swarm(tmp_path, script(BUSY, Answer(text="back")), settings=NO_RETRIES) as s:
        await s.tell("alpha", "hello")
        await s.until(lambda: s.state() is MysisState.ERRORED)
        await s.run_due()
        assert await s.value("SELECT retry_at FROM mysis") == START + 15 * SECOND
        await set_clock(s, jump)
        moved = START + (15 + jump) * SECOND
        assert await s.value("SELECT retry_at FROM mysis") == moved
        assert (await s.commander.mysis("alpha")).retry_at == moved
        await passes(s, 13)
        assert s.state() is MysisState.ERRORED
        s.clock.by(1)
        await s.until(lambda: s.state() is MysisState.RUNNING)


@JUMPS
async def test_a_wait_ends_after_its_seconds_and_its_stored_end_moves(tmp_path: Path, jump: int) -> None:
    async with swarm(tmp_path, script(WAIT, Answer(text="there"))) as s:
        await s.ask("alpha", "go")
        await set_clock(s, jump)
        end = START + (60 + jump) * SECOND
        assert json.loads(await s.value("SELECT wait FROM mysis"))["until"] == end
        assert (await s.commander.mysis("alpha")).waiting_until == end
        await passes(s, 58)
        assert s.provider.calls == 1
        s.clock.by(1)
        await s.until(lambda: s.provider.calls == 2)


@JUMPS
async def test_a_wait_whose_call_was_stored_just_before_the_clock_is_set_ends_after_its_seconds(
    tmp_path: Path, jump: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_stored, goes_on, write = asyncio.Event(), asyncio.Event(), Services.write

    async def write_late(services: Services, op: Callable[[WriterConnection], Any], *, urgent: bool = False) -> Any:
        done = await write(services, op, urgent=urgent)
        stored = done[0] if isinstance(done, tuple) else None
        if isinstance(stored, OpStored) and any(memory.role is Role.TOOL for memory in stored.memories):
            is_stored.set()
            await goes_on.wait()
        return done

    async with swarm(tmp_path, script(WAIT, Answer(text="there"))) as s:
        monkeypatch.setattr(Services, "write", write_late)
        await s.tell("alpha", "go")
        await is_stored.wait()
        await set_clock(s, jump)
        goes_on.set()
        await s.settled()
        assert (await s.commander.mysis("alpha")).waiting_until == START + (60 + jump) * SECOND
        await passes(s, 58)
        assert s.provider.calls == 1
        s.clock.by(1)
        await s.until(lambda: s.provider.calls == 2)


@pytest.mark.parametrize(
    "failures", [[StoreError("disk I/O error")], [StoreFull("full"), StoreError("disk I/O error")]]
)
async def test_the_clock_is_watched_after_its_times_could_not_be_stored(
    tmp_path: Path, failures: list[StoreError], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def move(conn: WriterConnection, delta: int) -> None:
        if failures:
            raise failures.pop(0)
        move_times_ahead(conn, delta)

    async with swarm(tmp_path, script()) as s:
        await s.commander.create("alpha", start=False)
        monkeypatch.setattr(time_ops, "move_times_ahead", move)
        await set_clock(s, DAY_S)
        while failures:
            await s.run_due(10)
        await s.run_due()
        assert "stored times keep the old clock: disk I/O error" in caplog.text
        await set_clock(s, HOUR_S)
        assert await s.value("SELECT data ->> 'seconds' FROM event WHERE kind = 'clock.set'") == HOUR_S


@JUMPS
async def test_a_question_expires_after_half_an_hour_and_its_stored_end_moves(tmp_path: Path, jump: int) -> None:
    async with swarm(tmp_path, script(BURN, Answer(text="done"))) as s:
        await s.tell("alpha", "go")
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals)
        await s.run_due()
        await set_clock(s, jump)
        [asked] = await s.commander.approvals()
        assert asked.expires_at == START + (1800 + jump) * SECOND
        await s.run_due(1797)
        assert await s.value("SELECT answer FROM approval") is None
        # The timer of the question may have begun with the second in which the clock was set.
        await passes(s, 3)
        await s.settled()
        assert await s.value("SELECT answer FROM approval") == "expired"


@JUMPS
async def test_a_call_in_flight_runs_out_of_time_only_by_what_passed(tmp_path: Path, jump: int) -> None:
    """Setting the clock is no silence of five minutes, and does not hide one."""
    async with swarm(tmp_path, script(Answer(calls=(call("act"),)), Answer(text="done"))) as s:
        s.peer.gates["act"] = asyncio.Event()
        await s.tell("alpha", "go")
        await s.until(lambda: s.peer.running)
        await set_clock(s, jump)
        for _ in range(9):
            await s.run_due(30)
        assert s.commander.swarm.runner("alpha").has_turn
        await s.run_due(30)
        s.clock.by(30)
        await s.until(lambda: s.state() is MysisState.ERRORED)


@JUMPS
async def test_the_length_of_a_tick_is_not_learned_from_a_jump(
    tmp_path: Path, jump: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [json.dumps({"current_tick": tick}) for tick in (100, 102)]
    wait = AnswerCall("zoea_wait", json.dumps({"until_tick": 104, "reason": "the kiln"}))
    replies = script(*(Answer(calls=(call("say_ticks", text),)) for text in told), Answer(calls=(wait,)))
    async with swarm(tmp_path, replies) as s:
        s.peer.gates["act"] = asyncio.Event()
        gate = asyncio.Event()
        monkeypatch.setattr(s.provider, "stream", held_before(s.provider.stream, 2, gate))  # the second answer waits
        await s.tell("alpha", "go")
        await s.until(lambda: s.provider.calls == 1)
        await s.until(lambda: s.commander.swarm.live_view.row(1).iteration == 2)
        await set_clock(s, jump)
        s.clock.by(9)
        gate.set()
        await s.settled()
        until = (await s.commander.mysis("alpha")).waiting_until
        assert until is not None
        assert until - s.clock.now() == 20 * SECOND, "two ticks of ten seconds"


def held_before(stream, number: int, gate: asyncio.Event):  # type: ignore[no-untyped-def]  # a provider's stream as it is
    """A stream that waits for the gate before the request of that number."""
    count = 0

    async def held(request):  # type: ignore[no-untyped-def]  # a provider's stream as it is
        nonlocal count
        count += 1
        if count == number:
            await gate.wait()
        async for item in stream(request):
            yield item

    return held


async def test_messages_of_an_hour_are_not_counted_for_a_day_after_the_clock_was_set_back(tmp_path: Path) -> None:
    settings = Settings.model_validate({"swarm": {"messages_per_hour": 1}})
    async with swarm(tmp_path, script(Answer(text="ok")), settings=settings) as s:
        await s.create("alpha", "beta")
        await s.commander.builtin_backend.send(1, 0, "beta", "one")
        with pytest.raises(RateExceeded):
            await s.commander.builtin_backend.send(1, 0, "beta", "two")
        await set_clock(s, -DAY_S)
        await s.commander.builtin_backend.send(1, 0, "beta", "two")


async def test_a_clock_set_back_while_no_swarm_ran_prolongs_no_recovery(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(BUSY), settings=NO_RETRIES) as s:
        await s.tell("alpha", "hello")
        await s.until(lambda: s.state() is MysisState.ERRORED)
    clock = HandClock(START - DAY_S * SECOND)
    async with swarm(tmp_path, script(Answer(text="back")), settings=NO_RETRIES, clock=clock) as s:
        await passes(s, 16)
        await s.until(lambda: s.state() is MysisState.RUNNING)
