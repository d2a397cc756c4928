"""Accounts, sessions, limits, faults and durability, as one client meets them."""

from __future__ import annotations

import asyncio
import json
import resource
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.store.test_faults import put_back, remove, replace
from tests.waiting import until
from zoea.model.errors import UsageError
from zoea.world.faults import FaultInjector
from zoea.world.service import CALLS_PER_TICK, CHATS_PER_TICK, LOGINS_PER_TICK, SESSIONS, ReefService
from zoea.world.ticker import Ticker
from zoea.world.world_log import WorldLog, connect_read_only, load_world


class Watched(Ticker):
    """A pace that tests can wait for."""

    def __init__(self, record: WorldLog, **options: Any) -> None:
        super().__init__(record, **options)
        self._ticked = asyncio.Event()

    def tick(self, *, late: bool = False) -> None:
        super().tick(late=late)
        self._ticked.set()

    async def until(self, tick: int) -> None:
        async with asyncio.timeout(10):
            while self._reef.tick_now < tick:
                self._ticked.clear()
                await self._ticked.wait()


class World:
    """A service whose ticks pass when the test says so."""

    def __init__(self, folder: Path, *, faults: str = "", turbo: bool = False) -> None:
        self.path = folder / "reef.db"
        self.record = WorldLog(self.path, seed=1)
        self.pace = Watched(self.record, seconds=2.0, turbo=turbo)
        self.faults = FaultInjector(faults, 1)
        self.service = ReefService(self.record, self.pace, self.faults)
        self.session = ""

    async def raw(self, tool: str, **args: Any) -> tuple[dict[str, Any], bool]:
        text, is_error = await self.service.call(tool, args)
        return json.loads(text), is_error

    async def ok(self, tool: str, **args: Any) -> dict[str, Any]:
        result, is_error = await self.raw(tool, **args)
        assert not is_error, result
        return result

    async def do(self, tool: str, **args: Any) -> dict[str, Any]:
        return await self.ok(tool, session_id=self.session, **args)

    async def code(self, tool: str, **args: Any) -> str:
        result, is_error = await self.raw(tool, **args)
        assert is_error, result
        assert result["message"]
        return str(result["code"])

    async def enter(self, name: str = "alpha") -> str:
        account = await self.ok("register", name=name)
        self.session = (await self.ok("login", **account))["session_id"]
        return self.session


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    found = World(tmp_path)
    yield found
    found.record.close()


async def test_register_returns_the_account_and_login_the_session(world: World) -> None:
    account = await world.ok("register", name="alpha")
    assert set(account) == {"account", "password"}
    assert account["account"] == "alpha"
    assert set(await world.ok("login", **account)) == {"session_id", "account"}


async def test_a_name_can_be_registered_again_before_its_first_login(world: World) -> None:
    await world.ok("register", name="alpha")
    second = await world.ok("register", name="alpha")
    await world.ok("login", **second)
    assert await world.code("register", name="alpha") == "name_taken"


async def test_wrong_passwords_and_unknown_accounts_have_different_errors_and_a_limit(world: World) -> None:
    await world.ok("register", name="alpha")
    assert await world.code("login", account="beta", password="x") == "unknown_account"
    for _ in range(LOGINS_PER_TICK):
        assert await world.code("login", account="alpha", password="x") == "login_refused"
    assert await world.code("login", account="alpha", password="x") == "rate_limited"


async def test_the_file_holds_no_password(world: World) -> None:
    account = await world.ok("register", name="alpha")
    await world.ok("login", **account)
    with closing(sqlite3.connect(world.path)) as db:
        assert account["password"] not in "\n".join(db.iterdump())


async def test_an_ended_session_is_refused_as_session_lost(world: World) -> None:
    await world.enter()
    assert await world.code("get_status", session_id="nonsense") == "session_lost"
    await world.do("logout")
    assert await world.code("get_status", session_id=world.session) == "session_lost"


async def test_a_new_session_over_the_limit_ends_the_oldest(world: World) -> None:
    account = await world.ok("register", name="alpha")
    sessions = [(await world.ok("login", **account))["session_id"] for _ in range(SESSIONS + 1)]
    assert await world.code("get_status", session_id=sessions[0]) == "session_lost"
    await world.ok("get_status", session_id=sessions[1])


async def test_rate_limited_calls_get_a_retry_time_and_pass_a_tick_later(world: World) -> None:
    await world.enter()
    for _ in range(CALLS_PER_TICK):
        await world.do("get_cargo")
    result, is_error = await world.raw("get_cargo", session_id=world.session)
    assert is_error
    assert "Try again in " in result["message"]
    assert result["retry_after_s"] >= 1
    world.pace.tick()
    await world.do("get_cargo")


async def test_chat_has_a_limit_of_its_own(world: World) -> None:
    await world.enter()
    for _ in range(CHATS_PER_TICK):
        await world.do("chat", text="hello")
    assert await world.code("chat", session_id=world.session, text="hello") == "rate_limited"


async def test_help_tells_how_to_play_and_what_a_tool_takes(world: World) -> None:
    assert "undock" in (await world.ok("help"))["help"]
    assert "times" in (await world.ok("help", topic="mine"))["takes"]
    assert await world.code("help", topic="win") == "unknown_tool"


async def test_bad_arguments_name_the_field(world: World) -> None:
    await world.enter()
    result, _ = await world.raw("mine", session_id=world.session, times=99)
    assert result["code"] == "bad_arguments"
    assert "times" in result["message"]
    assert await world.code("fly") == "unknown_tool"
    assert await world.code("captains_log_add", session_id=world.session, entry="") == "empty_entry"


async def test_the_map_result_has_the_current_tick(world: World) -> None:
    await world.enter()
    result = await world.do("get_map")
    assert len(result["map"]["systems"]) == 40
    assert result["current_tick"] == 0


async def test_an_acknowledged_call_is_in_the_file(world: World) -> None:
    await world.enter()
    await asyncio.gather(*(world.do("captains_log_add", entry=f"note {n}") for n in range(20)))
    await world.do("undock")
    with closing(connect_read_only(world.path)) as db:
        assert load_world(db, whole=True).world.hash() == world.record.reef.world.hash()


async def test_a_write_that_fails_ends_the_process(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr("zoea.world.world_log.os._exit", ended.append)
    await world.enter()
    world.record.reef.call("alpha", "undock", {})
    world.record.call("alpha", "undock", {})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    log = world.path.with_name("reef.db-wal")
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size, before[1]))
    try:
        world.record.commit()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ended == [9]


async def test_faults_lose_sessions_fail_calls_and_cut_payloads(tmp_path: Path) -> None:
    world = World(tmp_path, faults="error=1")
    await world.enter()
    assert await world.code("get_status", session_id=world.session) == "world_error"
    world.faults.rates = {"lose_session": 1.0}
    assert await world.code("get_status", session_id=world.session) == "session_lost"
    world.faults.rates = {}
    await world.enter("beta")
    world.faults.rates = {"malformed": 1.0}
    text, is_error = await world.service.call("get_status", {"session_id": world.session})
    assert not is_error
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    world.record.close()


async def test_a_restart_fault_ends_the_process_before_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, faults="restart=1")
    await world.enter()

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("zoea.world.service.os._exit", leave)
    with pytest.raises(SystemExit):
        await world.do("undock")
    assert world.record.reef.world.players["alpha"].docked
    world.record.close()


async def test_latency_delays_a_call(tmp_path: Path) -> None:
    world = World(tmp_path, faults="latency=1:0.01")
    loop = asyncio.get_running_loop()
    start = loop.time()
    await world.ok("help")
    assert loop.time() - start >= 0.009
    world.record.close()


def test_the_same_seed_gives_the_same_faults() -> None:
    text = "latency=0.5:0.1,error=0.5,lose_session=0.5,restart=0.5,malformed=0.5"
    one, two, other = (FaultInjector(text, seed) for seed in (1, 1, 2))
    drawn = [[dice.draw() for _ in range(20)] for dice in (one, two, other)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert FaultInjector("").draw() is None


@walk_cases("text", ["error", "error=2", "error=x", "sloth=1", "error=0.1:3", "latency=0.1:-1"])
def test_invalid_fault_options_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        FaultInjector(text)


async def test_in_turbo_a_tick_passes_once_all_have_acted(tmp_path: Path) -> None:
    world = World(tmp_path, turbo=True)
    first = await world.enter("a")
    second = await world.enter("b")
    ticking = asyncio.create_task(world.pace.run())
    await world.ok("get_status", session_id=first)
    await world.ok("undock", session_id=second)
    loop = asyncio.get_running_loop()
    start = loop.time()
    await world.ok("undock", session_id=first)
    await world.pace.until(1)
    assert loop.time() - start < 0.2
    ticking.cancel()
    await asyncio.gather(ticking, return_exceptions=True)
    world.record.close()


async def test_in_turbo_a_silent_player_is_waited_for_250_ms_once(tmp_path: Path) -> None:
    world = World(tmp_path, turbo=True)
    session = await world.enter("a")
    ticking = asyncio.create_task(world.pace.run())
    await world.ok("get_status", session_id=session)
    loop = asyncio.get_running_loop()
    start = loop.time()
    await world.pace.until(1)
    assert loop.time() - start > 0.1
    await world.ok("logout", session_id=session)
    ticking.cancel()
    await asyncio.gather(ticking, return_exceptions=True)
    world.record.close()


async def test_in_turbo_a_single_players_journey_takes_no_real_time(tmp_path: Path) -> None:
    world = World(tmp_path, turbo=True)
    session = await world.enter("a")
    ticking = asyncio.create_task(world.pace.run())
    await world.ok("undock", session_id=session)
    far = max(world.record.reef.world_map.ticks("s1").items(), key=lambda item: item[1])[0]
    loop = asyncio.get_running_loop()
    start = loop.time()
    arrival = (await world.ok("jump", session_id=session, system_id=far))["arrival_tick"]
    await world.pace.until(arrival)
    assert loop.time() - start < 0.1 * arrival
    ticking.cancel()
    await asyncio.gather(ticking, return_exceptions=True)
    world.record.close()


async def test_ticks_pass_by_the_clock_without_players(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.pace = Watched(world.record, seconds=0.01)
    ticking = asyncio.create_task(world.pace.run())
    await world.pace.until(3)
    ticking.cancel()
    await asyncio.gather(ticking, return_exceptions=True)
    world.record.close()


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
@pytest.mark.parametrize("move", [remove, replace])
async def test_a_world_whose_file_was_moved_is_on_hold_until_it_is_back(
    world: World, move: Callable[[Path], None], ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await world.enter()
    file = world.path.with_name(world.path.name + ending)
    move(file)
    refused, is_error = await world.raw("register", name="beta")
    assert is_error
    assert refused["code"] == "world_on_hold"
    assert str(file) in refused["message"]
    before = world.record.reef.tick_now
    world.pace._seconds = 0.0
    ticking = asyncio.create_task(world.pace.run())
    await until(lambda: "on hold" in capsys.readouterr().err)
    assert world.record.reef.tick_now == before
    put_back(file)
    await world.pace.until(before + 1)
    ticking.cancel()
    await world.enter("beta")


async def test_a_call_during_which_the_file_is_moved_is_acknowledged_once_it_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoea.world.service.MOVED_S", 0.0)
    usual, moved = world.record.register, asyncio.Event()

    def register(name: str, secret: str) -> None:
        usual(name, secret)
        remove(world.path)
        moved.set()

    monkeypatch.setattr(world.record, "register", register)
    registering = asyncio.create_task(world.raw("register", name="alpha"))
    await moved.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not registering.done()
    put_back(world.path)
    _, is_error = await registering
    assert not is_error
    with closing(connect_read_only(world.path)) as db:
        assert db.execute("SELECT name FROM log WHERE kind = 'register'").fetchall() == [("alpha",)]
