"""Title and notifications of the terminal, and the ways to leave the cockpit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual import events

from tests.fakes.llm_clock import HandClock
from tests.fakes.swarm import FakeSwarm
from tests.swarm.harness import script
from tests.tui.cockpit import Stage, asks_when_told, cockpit, cockpit_over
from tests.tui.idle_pilot import IdlePilot
from tests.tui.test_approvals import ask
from zoea.model.enums import MysisState
from zoea.model.errors import NoRunningSwarm
from zoea.model.request import Answer, AnswerCall
from zoea.model.values import MysisView, SwarmView
from zoea.store.store import Store
from zoea.tui.app import CockpitApp
from zoea.tui.dialogs.quit import QuitDialog
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.screens.upstreams import UpstreamsScreen
from zoea.tui.state import swarm_connection
from zoea.tui.state.swarm_connection import OpenSwarm
from zoea.tui.terminal.terminal_control import TerminalControl, build_notification, build_title, build_title_sequence


def listen(stage: Stage) -> list[str]:
    told: list[str] = []
    stage.app.terminal.write = told.append
    stage.app.terminal.bell = lambda: told.append("bell")
    return told


async def view(name: str = "alpha", *, asks: bool = False) -> MysisView:
    made = await FakeSwarm().create(name)
    return replace(made, approvals=1) if asks else made


# The terminal.


async def test_the_title_names_the_mysis_that_needs_you_until_none_does(tmp_path: Path) -> None:
    async with cockpit(tmp_path, asks_when_told) as stage:
        told = listen(stage)
        await ask(stage, "beta")
        await stage.until(lambda: build_title_sequence("(1) beta: asks · Zoea reef-run") in told)
        await stage.api.stop("beta")
        await stage.until(lambda: told[-1] == build_title_sequence("Zoea reef-run · 0 working"))


async def test_an_unfocused_terminal_rings_once_for_each_mysis_that_begins_to_need_you(tmp_path: Path) -> None:
    async with cockpit(tmp_path, asks_when_told) as stage:
        told = listen(stage)
        stage.app.post_message(events.AppBlur())
        await stage.until(lambda: not stage.app.app_focus)
        await ask(stage, "beta")
        await stage.until(lambda: "bell" in told)
        await stage.api.send("beta", "more")
        await stage.api.broadcast("hello")
        await stage.until(lambda: stage.view("alpha").turns == 1)
        assert told.count("bell") == 1
        assert build_notification("Zoea", "beta: asks") in told


async def test_a_focused_terminal_does_not_ring(tmp_path: Path) -> None:
    async with cockpit(tmp_path, asks_when_told) as stage:
        told = listen(stage)
        await ask(stage, "beta")
        await stage.until(lambda: any("beta" in one for one in told))
        assert "bell" not in told


async def test_a_mysis_that_needed_you_before_the_cockpit_opened_does_not_ring() -> None:
    told: list[str] = []
    terminal = TerminalControl(told.append, lambda: told.append("bell"))
    asking = await view(asks=True)
    terminal.take([asking], focused=False)
    terminal.take([asking], focused=False)
    assert told == []
    terminal.take([], focused=False)
    terminal.take([asking], focused=False)
    assert told[0] == "bell"


async def test_a_name_cannot_put_control_characters_into_the_title() -> None:
    hostile = await view("\x1b]0;owned\x07a\nb\x9d", asks=True)
    title = build_title_sequence(build_title("", [hostile]))
    assert title.count("\x1b") == 1
    assert title.endswith("\x07")
    assert title.count("\x07") == 1
    assert "\n" not in title
    assert r"\u001b]0;owned\u0007a b\u009d" in title


def test_a_notification_has_the_parts_its_protocol_knows() -> None:
    sent = build_notification("a;b", "c;d")
    assert sent == "\x1b]9;a,b: c,d\x07\x1b]777;notify;a,b;c,d\x07"


# Quitting.


async def test_q_asks_whether_the_swarm_ends_or_keeps_running(tmp_path: Path) -> None:
    async with cockpit(tmp_path, start=True) as stage:
        await stage.press("q")
        assert stage.shows(QuitDialog)
        text = stage.text()
        assert "3 of 3 myses running: 0 working, 3 at rest" in text
        assert "end the swarm" in text
        assert "leave it running" in text
        await stage.press("escape")
        assert stage.shows(DashboardScreen)


async def test_q_says_that_a_nudge_follows_and_costs(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=("alpha",)) as stage:
        nudged = replace(stage.view(), state=MysisState.RUNNING, is_at_rest=False)
        stage.app.feed.take(SwarmView(9, False, "", (nudged,)))
        await stage.press("q")
        assert "0 working, 1 between turns" in stage.text()


async def test_q_counts_no_mysis_that_waits_as_at_work(tmp_path: Path) -> None:
    wait = Answer(calls=(AnswerCall("zoea_wait", '{"seconds": 60, "reason": "the ore is far"}'),))
    async with cockpit(tmp_path, script(wait), names=("alpha",)) as stage:
        await stage.api.send("alpha", "go")
        await stage.until(lambda: "1 waiting" in stage.text())
        await stage.press("q", shows="1 of 1 mysis running: 0 working, 1 waiting")


async def test_s_ends_the_swarm_and_the_app(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("q", "s", until=lambda: stage.app.return_value == "stop")


async def test_l_leaves_the_swarm_running(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.press("q", "l", until=lambda: stage.app.return_value == "leave")


@pytest.mark.parametrize("keys", [("l",), ("ctrl+c",)])
async def test_an_attached_cockpit_closes_and_leaves_the_swarm_running(tmp_path: Path, keys: tuple[str, ...]) -> None:
    async with cockpit(tmp_path, start=True, is_owner=False) as stage:
        await stage.press("q", *keys, until=lambda: stage.app.return_value == "detach")
        assert stage.swarm.state("alpha") == "running"


async def test_an_attached_cockpit_ends_the_swarm_of_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cockpit(tmp_path, start=True, is_owner=False) as stage:
        ended: list[bool] = []
        monkeypatch.setattr(stage.swarm.commander.swarm, "on_shutdown", lambda: ended.append(True))
        await stage.press("q")
        assert "its other screens end too" in stage.text()
        await stage.press("s", until=lambda: stage.app.return_value == "end")
        assert ended


async def test_what_a_key_of_the_quit_dialog_does_is_wrapped_below_itself(tmp_path: Path) -> None:
    async with cockpit(tmp_path, is_owner=False, size=(60, 16)) as stage:
        await stage.press("q", until=lambda: "end too" in " ".join(stage.text().replace("│", " ").split()))
        below = [line for line in stage.text().splitlines() if "screens end" in line or "end too" in line]
        assert below
        assert all(re.match(r"│ {6}\w", line) for line in below), below


@pytest.mark.parametrize("key", ["s", "l"])
async def test_q_closes_a_cockpit_whose_swarm_another_one_has_ended_meanwhile(tmp_path: Path, key: str) -> None:
    async with cockpit(tmp_path, is_owner=False) as stage:
        await stage.press("q")
        stage.app.feed.lost = "the running swarm has ended"
        stage.app.feed_changed(frozenset())
        await stage.until(lambda: "The swarm has ended" in stage.text())
        assert "end the swarm for now" not in stage.text()
        await stage.press(key, until=lambda: stage.app.return_value == "detach")


@asynccontextmanager
async def slow_to_close(database: Path, closing: asyncio.Event, may_end: asyncio.Event) -> AsyncIterator[OpenSwarm]:
    try:
        yield OpenSwarm(FakeSwarm(), database, True, "slow")
    finally:
        closing.set()
        await may_end.wait()


async def test_a_slow_end_shows_its_progress_and_a_second_ctrl_c_exits_at_once(tmp_path: Path) -> None:
    closing, may_end = asyncio.Event(), asyncio.Event()
    app = CockpitApp(lambda: slow_to_close(tmp_path / "no.db", closing, may_end), config=tmp_path, now=lambda: 0)
    async with app.run_test(size=(100, 30)):
        stage = Stage(app, IdlePilot(app), HandClock())
        await stage.until(lambda: app.feed.view is not None)
        await stage.press("q", "s")
        await closing.wait()
        assert "s of 10 at most" in stage.text()
        await stage.press("ctrl+c")
        assert app.return_value == "stop"
        may_end.set()


async def test_an_end_that_hangs_is_given_up_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closing, may_end = asyncio.Event(), asyncio.Event()
    app = CockpitApp(lambda: slow_to_close(tmp_path / "no.db", closing, may_end), config=tmp_path, now=lambda: 0)
    monkeypatch.setattr(swarm_connection, "CLOSE_S", 0.2)
    async with app.run_test(size=(100, 30)):
        stage = Stage(app, IdlePilot(app), HandClock())
        await stage.until(lambda: app.feed.view is not None)
        await stage.press("q", "s")
        await stage.until(lambda: app.return_value == "stop", within=9)
    may_end.set()


async def test_quitting_cancels_a_swarm_that_is_still_opening(tmp_path: Path) -> None:
    @asynccontextmanager
    async def never() -> AsyncIterator[OpenSwarm]:
        await asyncio.Event().wait()
        yield OpenSwarm(FakeSwarm(), tmp_path / "no.db", True)

    app = CockpitApp(never, config=tmp_path, now=lambda: 0)
    async with app.run_test(size=(100, 30)):
        stage = Stage(app, IdlePilot(app), HandClock())
        await stage.until(lambda: "Opening the swarm" in stage.text())
        await stage.press("q")
        await stage.until(lambda: app.return_value == "stop", within=9)


async def test_a_swarm_that_cannot_open_says_why(tmp_path: Path) -> None:
    @asynccontextmanager
    async def refused() -> AsyncIterator[OpenSwarm]:
        opened = OpenSwarm(FakeSwarm(), tmp_path / "no.db", True)
        if opened.is_owner:
            raise NoRunningSwarm("nobody [/] owns it", hint="start one")
        yield opened

    app = CockpitApp(refused, config=tmp_path, now=lambda: 0)
    async with app.run_test(size=(100, 30)):
        stage = Stage(app, IdlePilot(app), HandClock())
        await stage.until(lambda: "nobody [/] owns it" in stage.text())


async def test_an_unexpected_error_while_opening_is_shown(tmp_path: Path) -> None:
    @asynccontextmanager
    async def broken() -> AsyncIterator[OpenSwarm]:
        yield OpenSwarm(FakeSwarm(), (tmp_path / "closed").readlink(), True)

    app = CockpitApp(broken, config=tmp_path, now=lambda: 0)
    async with app.run_test(size=(100, 30)):
        stage = Stage(app, IdlePilot(app), HandClock())
        await stage.until(lambda: "FileNotFoundError" in stage.text())
    assert app.open_error is not None


async def test_commands_of_an_ended_swarm_are_refused_not_raised(tmp_path: Path) -> None:
    fake = FakeSwarm()
    await fake.create("alpha")
    await (await Store.open(tmp_path / "zoea.db", clock_now=lambda: 1)).close()
    async with cockpit_over(fake, tmp_path / "zoea.db") as stage:
        stage.app.connection.opened = None
        await stage.press("x", "s", "b")
        assert [notice for notice in stage.notices if "opening" not in notice] == []


async def test_a_tick_while_a_screen_is_mounted_or_removed_does_not_fail(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        made = stage.app.push_screen(UpstreamsScreen())
        stage.app.tick()
        await made
        await stage.until(lambda: "no tool servers yet: n adds one" in stage.text())
    stage.app.tick()
