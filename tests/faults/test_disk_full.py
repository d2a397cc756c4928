"""A full disk stops the swarm, loses nothing, and hides nothing. With space it goes on by itself."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults import database_checker
from tests.swarm.harness import Swarm, call, script, swarm
from tests.waiting import until
from zoea.llm.providers.scripts import builtin
from zoea.model.enums import DeliveryMode, MysisState
from zoea.model.errors import StoreFull, StoreMoved, ZoeaError
from zoea.model.request import Answer
from zoea.model.values import Event
from zoea.process.open_files import OpenFiles
from zoea.runtime.run_options import StartOptions, prepare_own_swarm
from zoea.settings.paths import places
from zoea.settings.schema import Settings
from zoea.store.store import Store
from zoea.swarm.runner import STOP_WITHIN_S
from zoea.swarm.services import RETRY_DISK_S

DISK_FULL = StoreFull.reason
ROUNDS = 200 if os.environ.get("ZOEA_SOAK") else 8
PLENTY = 1_000_000
SETTINGS = Settings.model_validate(
    {
        "nudge": {"enabled": False},
        "context": {"context_window": 200_000},
        "turn": {"max_iterations": 1000},
        "budget": {"token_budget_per_agent": 100_000, "swarm_per_day": "none"},
    }
)
LONG = "x" * 50_000


async def leave(store: Store, spare: int) -> None:
    """Let the database grow by so many pages and no more."""
    pages = (await store.read("PRAGMA page_count"))[0][0]
    await store.write(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages + spare}"))


async def fill_during_answer(s: Swarm) -> None:
    """Let alpha's answer come when no space is left, and wait for the hold."""
    block = s.provider.block()
    await s.commander.send("alpha", "go")
    await block.reached.wait()
    await leave(s.store, 0)
    block.release()
    await s.until(lambda: s.commander.swarm.hold_switch.swarm)


async def on_hold(s: Swarm) -> bool:
    view = await s.commander.view()
    assert view.hold_reason in ("", DISK_FULL)
    return view.held


async def test_a_message_that_finds_no_space_is_refused_and_the_swarm_says_why_it_holds(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="heard")), settings=SETTINGS) as s:
        await s.commander.create("alpha", start=False)
        await leave(s.store, 0)
        events = await s.value("SELECT max(id) FROM event")
        with pytest.raises(StoreFull) as caught:
            await s.commander.send("alpha", LONG)
        assert "Free some space" in caught.value.hint
        assert await on_hold(s)
        assert await s.value("SELECT count(*) FROM message") == 0
        assert await s.value("SELECT count(*) FROM delivery") == 0
        assert (await s.commander.mysis("alpha")).text == ""
        with pytest.raises(StoreFull):
            await s.commander.start("alpha")
        await leave(s.store, PLENTY)
        assert (await s.commander.view()).event_id == await s.value("SELECT max(id) FROM event") == events


async def test_what_is_written_while_the_database_is_moved_is_stored_once_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[int] = []  # empty until they are counted

    def check(files: OpenFiles, usual: Callable[[OpenFiles], None] = OpenFiles.check) -> None:
        if checks:
            checks.append(len(checks))
            if len(checks) == 3:  # behind the COMMIT
                s.store.path.rename(s.store.path.with_suffix(".away"))
        usual(files)

    monkeypatch.setattr(OpenFiles, "check", check)
    async with swarm(tmp_path, script(Answer(text="heard")), settings=SETTINGS) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.hold(True)  # so that nothing else is written
        checks.append(0)
        sent = asyncio.create_task(s.commander.send("alpha", "hello"))
        await s.until(lambda: s.commander.swarm.hold_switch.reason == StoreMoved.reason)
        assert not sent.done()
        s.store.path.with_suffix(".away").rename(s.store.path)
        s.clock.by(RETRY_DISK_S)
        await sent
        assert await s.value("SELECT count(*) FROM message") == 1
        assert await s.value("SELECT count(*) FROM delivery") == 1
        await s.until(lambda: s.commander.swarm.hold_switch.reason != StoreMoved.reason)


async def test_it_goes_on_by_itself_within_one_interval_once_there_is_space(tmp_path: Path) -> None:
    replies = script(Answer(text=LONG, calls=(call("act"),)), Answer(text="done"))
    async with swarm(tmp_path, replies, settings=SETTINGS) as s:
        await s.commander.create("alpha", start=False)
        await fill_during_answer(s)
        for _ in range(3):
            s.clock.by(RETRY_DISK_S)
            await asyncio.sleep(0.02)
            assert await on_hold(s)
        assert s.peer.seen == []
        assert await s.value("SELECT count(*) FROM memory") == 1
        assert (await s.commander.mysis("alpha")).tool_calls == 0
        await leave(s.store, PLENTY)
        s.clock.by(RETRY_DISK_S)
        await s.settled()
        assert not await on_hold(s)
        assert s.peer.seen == [("act", "x")]
        assert s.provider.calls == 2
        assert await s.value("SELECT outcome FROM turn") == "answered"


@pytest.mark.parametrize("failure", [StoreFull, StoreMoved])
async def test_a_first_stop_that_cannot_be_stored_ends_the_call_at_once_and_is_stored_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[StoreFull]
) -> None:
    async with swarm(tmp_path, script(Answer(text="a long answer that goes on")), settings=SETTINGS) as s:
        await s.commander.create("alpha", start=False)
        block = s.provider.block()
        await s.commander.send("alpha", "go")
        await block.reached.wait()

        async def refuse(_: object, **_options: object) -> None:
            raise failure("not stored")

        with monkeypatch.context() as patched:
            patched.setattr(s.store, "write", refuse)
            with pytest.raises(failure, match=failure.reason) as caught:
                await s.commander.stop("alpha")
            assert type(caught.value) is failure
            assert caught.value.hint == "It is done as soon as it can be stored, while this swarm runs."
            await s.until(lambda: s.provider.in_flight == 0)
            assert s.state() is MysisState.RUNNING
        s.clock.by(RETRY_DISK_S)
        await s.until(lambda: s.state() is MysisState.STOPPED)
        await s.until(lambda: not s.commander.swarm.runner("alpha").has_turn)
        assert await s.rows("SELECT outcome FROM turn") == [{"outcome": "cancelled"}]


async def test_a_delete_that_cannot_be_stored_says_that_it_is_to_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with swarm(tmp_path, script(Answer(text="heard")), settings=SETTINGS) as s:
        await s.commander.create("alpha")

        async def refuse(_: object, **_options: object) -> None:
            raise StoreFull("not stored")

        with monkeypatch.context() as patched:
            patched.setattr(s.store, "write", refuse)
            with pytest.raises(StoreFull) as caught:
                await s.commander.delete("alpha")
        s.clock.by(RETRY_DISK_S)
        await s.until(lambda: s.state() is MysisState.STOPPED)
        assert "alpha stops as soon as that can be stored, and is not deleted" in caught.value.hint
        await s.commander.delete("alpha")


@pytest.mark.parametrize("failure", [StoreFull, StoreMoved])
async def test_a_run_whose_start_cannot_be_stored_says_that_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[StoreFull]
) -> None:
    async with swarm(tmp_path, script(Answer(text="heard")), settings=SETTINGS) as s:
        await s.commander.create("alpha", start=False)

        async def refuse(_: object, **_options: object) -> None:
            raise failure("not stored")

        with monkeypatch.context() as patched:
            patched.setattr(s.store, "write", refuse)
            with pytest.raises(failure) as caught:
                await prepare_own_swarm(s.api, StartOptions(start_swarm=True), places(), SETTINGS)
        assert caught.value.hint.startswith("The swarm ends, and nothing more is started.")
        s.clock.by(RETRY_DISK_S)
        await s.until(lambda: s.state() is MysisState.RUNNING)


async def test_a_hold_of_the_commander_outlasts_a_full_disk(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="heard")), settings=SETTINGS) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.hold(True, reason="lunch")
        await leave(s.store, 0)
        with pytest.raises(StoreFull):
            await s.commander.send("alpha", LONG)
        assert (await s.commander.view()).hold_reason == DISK_FULL
        await leave(s.store, PLENTY)
        s.clock.by(RETRY_DISK_S)
        await s.until(lambda: s.commander.swarm.hold_switch.reason == "lunch")
        assert (await s.commander.view()).held


async def test_a_person_who_made_space_need_not_wait_for_the_next_trial(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text=LONG)), settings=SETTINGS) as s:
        await s.create("alpha", "beta")
        await fill_during_answer(s)
        assert (await s.commander.mysis("alpha")).swarm_held
        with pytest.raises(StoreFull, match=DISK_FULL):
            await s.commander.start("beta")
        assert await on_hold(s)
        await leave(s.store, PLENTY)
        assert (await s.commander.start("beta")).state is MysisState.RUNNING
        assert not await on_hold(s)
        assert not (await s.commander.mysis("alpha")).swarm_held
        await s.settled()
        assert await s.value("SELECT outcome FROM turn") == "answered"


async def test_a_hold_that_is_lifted_once_there_is_space_lets_everything_go_on(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text=LONG), Answer(text="heard")), settings=SETTINGS) as s:
        await s.create("alpha", "beta")
        await fill_during_answer(s)
        await leave(s.store, PLENTY)
        await s.commander.hold(False)
        assert not await on_hold(s)
        assert (await s.commander.start("beta")).state is MysisState.RUNNING
        await s.settled()
        assert await s.value("SELECT outcome FROM turn") == "answered"


async def test_a_swarm_on_a_full_disk_closes_at_once(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text=LONG), Answer(text="again")), settings=SETTINGS) as s:
        await s.commander.create("alpha", start=False)
        await fill_during_answer(s)
        async with asyncio.timeout(STOP_WITHIN_S):  # by itself, not because the time of its turn is over
            await s.commander.close()
        await leave(s.store, PLENTY)
    async with swarm(tmp_path, script(Answer(text="again")), settings=SETTINGS) as s:
        await s.start("alpha")
    database_checker.at_rest(tmp_path / "zoea.db")


async def hear(s: Swarm, heard: list[Event]) -> None:
    async for event in s.commander.events():
        assert isinstance(event, Event)
        heard.append(event)


async def shown_is_stored(s: Swarm, heard: list[Event]) -> None:
    """What fronts see is in the database: nothing is counted, told or named that could not be written."""
    view = await s.commander.view()
    told = {event.id for event in heard if event.id}  # 0: of the moment, in no table
    tallies = {row["mysis_id"]: row for row in await s.rows("SELECT * FROM tally")}
    states = {row["id"]: row["state"] for row in await s.rows("SELECT id, state FROM mysis")}
    for mysis in view.myses:
        tally = tallies[mysis.id]
        assert mysis.turns <= tally["turns"]
        assert mysis.requests <= tally["requests"]
        assert mysis.tool_calls <= tally["tool_calls"]
        assert mysis.tokens <= tally["tokens"]
        assert mysis.state == states[mysis.id]
    stored = {row["id"] for row in await s.rows("SELECT id FROM event")}
    assert told <= stored


@pytest.mark.timeout(3600 if ROUNDS > 10 else 60)
async def test_a_disk_that_fills_at_random_writes_loses_nothing_and_answers_nothing_twice(tmp_path: Path) -> None:
    chance = random.Random(ROUNDS)
    async with swarm(tmp_path, builtin, settings=SETTINGS) as s:
        for model in ("tools:2", "parallel:4", "echo", "think"):
            await s.commander.create(model.replace(":", "-"), model=model)
        names = [mysis.name for mysis in (await s.commander.view()).myses]
        heard: list[Event] = []
        listening = asyncio.create_task(hear(s, heard))
        said: list[str] = []
        refused: list[str] = []

        async def say(number: int) -> None:
            text = f"{number} " + "y" * chance.randrange(4000)
            mode = chance.choice((DeliveryMode.QUEUE, DeliveryMode.STEER))
            try:
                await s.commander.send(chance.choice(names), text, mode=mode)
            except StoreFull:
                refused.append(text)
            else:
                said.append(text)

        def has_space() -> bool:
            s.clock.by(RETRY_DISK_S)
            return s.commander.swarm.services._trial is None

        held = 0
        for round_ in range(ROUNDS):
            await leave(s.store, chance.randrange(30))
            await asyncio.gather(*(say(round_ * 100 + n) for n in range(12)))
            await asyncio.sleep(chance.random() * 0.05)
            if await on_hold(s):
                held += 1
                await shown_is_stored(s, heard)
                s.clock.by(RETRY_DISK_S)
                await asyncio.sleep(0.01)
                await shown_is_stored(s, heard)
            await leave(s.store, PLENTY)
            await until(has_space)
        await s.settled_in_time(*names)  # a turn that nears its budget rests by the clock
        assert held
        assert refused
        assert sorted(row["content"] for row in await s.rows("SELECT content FROM message")) == sorted(said)
        prompts = [row["content"] for row in await s.rows("SELECT content FROM memory WHERE role = 'user'")]
        assert sorted(prompts) == sorted(said)
        assert await s.rows("SELECT outcome, failure FROM turn WHERE outcome IS NOT 'answered'") == []
        assert await s.rows("SELECT * FROM tool_call WHERE state <> 'done'") == []
        listening.cancel()
        with pytest.raises((asyncio.CancelledError, ZoeaError)):
            await listening
    database_checker.at_rest(tmp_path / "zoea.db")
