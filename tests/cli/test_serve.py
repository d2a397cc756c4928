"""`zoea serve`: over an own swarm, beside a running one, and how each ends."""

from __future__ import annotations

import asyncio
import re
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.cli.conftest import Zoea
from tests.fakes.owner import OwnerThread, fake_owner
from tests.fakes.swarm import FakeSwarm
from zoea.cli import serve_session
from zoea.model.swarm_api import SwarmApi
from zoea.process.lock import read_holder
from zoea.runtime import compose
from zoea.settings.paths import Places
from zoea.web.browser_server import BrowserServer

ADDRESS = re.compile(r"The cockpit is at http://127\.0\.0\.1:\d+/[\w-]{43,}/\n")


@pytest.fixture(autouse=True)
def _once_announced(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What is done once the address is printed."""
    swarm_options: list[Callable[[], object]] = []
    real = serve_session._announce

    def announce(*given: Any) -> None:
        real(*given)
        for wish in swarm_options:
            wish()

    monkeypatch.setattr(serve_session, "_announce", announce)
    return swarm_options


@pytest.fixture
def then(_once_announced: list[Callable[[], object]]) -> Callable[[Callable[[], object]], None]:
    return _once_announced.append


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> FakeSwarm:
    """What `zoea serve` runs where nothing runs yet."""
    swarm = FakeSwarm()

    @asynccontextmanager
    async def running(
        _where: Places, on_shutdown: Callable[[], None], *, options: compose.SwarmOptions
    ) -> AsyncIterator[SwarmApi]:
        swarm.on_shutdown = on_shutdown
        yield swarm

    class NoTimer:
        daemon = False

        def __init__(self, *_: object) -> None:
            """Nothing ends the test's process."""

        def start(self) -> None:
            """See above."""

    monkeypatch.setattr(compose, "running_swarm", running)
    monkeypatch.setattr("zoea.runtime.owner.threading.Timer", NoTimer)
    return swarm


def test_where_no_swarm_runs_it_owns_one_and_starts_nobody(
    zoea: Zoea, own: FakeSwarm, then: Callable[[Callable[[], object]], None]
) -> None:
    then(lambda: signal.raise_signal(signal.SIGINT))
    ran = zoea("serve", "--port", "0", "--myses", "2")
    assert ran.code == 0, ran.err
    assert ADDRESS.match(ran.out)
    assert "ctrl+c ends it" in ran.out
    assert {mysis.state.value for mysis in asyncio.run(own.view()).myses} == {"idle"}


def test_it_starts_them_where_that_is_asked(
    zoea: Zoea, own: FakeSwarm, then: Callable[[Callable[[], object]], None]
) -> None:
    then(lambda: own.on_shutdown())
    assert zoea("serve", "--port", "0", "--myses", "2", "--start-swarm", "--provider", "autopilot").code == 0
    assert {mysis.state.value for mysis in asyncio.run(own.view()).myses} == {"running"}


def test_beside_a_running_swarm_it_attaches_and_a_signal_leaves_that_running(
    zoea: Zoea, beside: OwnerThread, then: Callable[[Callable[[], object]], None]
) -> None:
    then(lambda: signal.raise_signal(signal.SIGTERM))
    ran = zoea("serve", "--port", "0", "--world", "reef", "--host", "localhost")
    assert ran.code == 0, ran.err
    assert "leaves it running" in ran.out
    assert "--world counts only where one is started" in ran.err
    assert beside.owner is not None
    assert not beside.owner.ending.is_set()


def test_where_somebody_was_quicker_it_attaches_to_them(
    zoea: Zoea, beside: OwnerThread, then: Callable[[Callable[[], object]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([None])
    monkeypatch.setattr(serve_session, "read_holder", lambda data: next(answers, read_holder(data)))
    then(lambda: signal.raise_signal(signal.SIGTERM))
    ran = zoea("serve", "--port", "0")
    assert ran.code == 0, ran.err
    assert "leaves it running" in ran.out


def test_it_ends_with_the_swarm_that_it_is_attached_to(
    zoea: Zoea, beside: OwnerThread, then: Callable[[Callable[[], object]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve_session, "HANDED_ON_S", 0.2)
    then(beside.end)
    ran = zoea("serve", "--port", "0")
    assert ran.code == 0, ran.err
    assert ran.out.endswith("The running swarm has ended.\n")


def test_it_goes_on_with_whoever_takes_the_swarm_over(
    zoea: Zoea, beside: OwnerThread, then: Callable[[Callable[[], object]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()
    ended: list[BrowserServer] = []

    def take_over() -> None:
        beside.thread.join(timeout=20)
        with fake_owner():
            is_over.wait(timeout=20)

    async def end_cockpits(door: BrowserServer) -> None:
        if not ended:
            signal.raise_signal(signal.SIGTERM)
        ended.append(door)

    monkeypatch.setattr(serve_session, "HANDED_ON_S", 20.0)
    monkeypatch.setattr(BrowserServer, "end_cockpits", end_cockpits)
    successor = threading.Thread(target=take_over)
    successor.start()
    then(beside.end)
    ran = zoea("serve", "--port", "0")
    is_over.set()
    successor.join(timeout=20)
    assert ran.code == 0, ran.err
    assert len(ended) == 2  # once for the swarm that went away, once for the end
    assert "has ended" not in ran.out


def test_other_machines_are_let_in_with_a_warning(
    zoea: Zoea, own: FakeSwarm, then: Callable[[Callable[[], object]], None]
) -> None:
    then(lambda: signal.raise_signal(signal.SIGTERM))
    ran = zoea("serve", "--port", "0", "--host", "0.0.0.0")
    assert ran.code == 0, ran.err
    assert "nothing on the way is encrypted" in ran.err


@pytest.mark.parametrize("arguments", [("--world", "mars"), ("--port", "70000"), ("--myses", "-1")])
def test_what_makes_no_sense_is_refused(zoea: Zoea, arguments: tuple[str, str]) -> None:
    assert zoea("serve", *arguments).code == 2


def test_an_address_that_is_none_of_this_machine_is_refused(zoea: Zoea) -> None:
    ran = zoea("serve", "--host", "192.0.2.1")
    assert ran.code == 5
    assert "--port 0" in ran.err
