"""`zoea serve`: with its own swarm, attached to a running one, and how each ends."""

from __future__ import annotations

import asyncio
import re
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Zoea
from tests.fakes.owner import OwnerThread, fake_owner
from tests.fakes.swarm import FakeSwarm
from zoea.cli.commands import serve as serve_command
from zoea.process.lock import read_holder
from zoea.settings.paths import places
from zoea.web.browser_server import BrowserServer

ADDRESS = re.compile(r"The cockpit is at http://127\.0\.0\.1:\d+/[\w-]{43,}/\n")


@pytest.fixture(autouse=True)
def _once_announced(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """Callbacks to call after the address is printed."""
    callbacks: list[Callable[[], object]] = []
    real = serve_command.announce

    def announce(*given: Any) -> None:
        real(*given)
        for callback in callbacks:
            callback()

    monkeypatch.setattr(serve_command, "announce", announce)
    return callbacks


@pytest.fixture
def after_start(_once_announced: list[Callable[[], object]]) -> Callable[[Callable[[], object]], None]:
    return _once_announced.append


def test_serve_without_a_swarm_owns_one_and_starts_no_mysis(
    zoea: Zoea, owned_swarm: FakeSwarm, after_start: Callable[[Callable[[], object]], None]
) -> None:
    after_start(lambda: signal.raise_signal(signal.SIGINT))
    ran = zoea("serve", "--port", "0", "--myses", "2")
    assert ran.code == 0, ran.err
    assert ADDRESS.match(ran.out)
    assert "ctrl+c ends it" in ran.out
    assert {mysis.state.value for mysis in asyncio.run(owned_swarm.view()).myses} == {"idle"}


def test_serve_starts_myses_on_request(
    zoea: Zoea, owned_swarm: FakeSwarm, after_start: Callable[[Callable[[], object]], None]
) -> None:
    after_start(lambda: owned_swarm.on_shutdown())
    assert zoea("serve", "--port", "0", "--myses", "2", "--start-swarm", "--provider", "autopilot").code == 0
    assert {mysis.state.value for mysis in asyncio.run(owned_swarm.view()).myses} == {"running"}


def test_serve_attaches_and_a_signal_leaves_the_swarm_running(
    zoea: Zoea, other_owner: OwnerThread, after_start: Callable[[Callable[[], object]], None]
) -> None:
    after_start(lambda: signal.raise_signal(signal.SIGTERM))
    ran = zoea("serve", "--port", "0", "--world", "reef", "--host", "localhost")
    assert ran.code == 0, ran.err
    assert "leaves it running" in ran.out
    assert "--world has no effect" in ran.err
    assert other_owner.owner is not None
    assert not other_owner.owner.ending.is_set()


def test_serve_attaches_when_it_lost_the_lock(
    zoea: Zoea,
    other_owner: OwnerThread,
    after_start: Callable[[Callable[[], object]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter([None])
    monkeypatch.setattr(serve_command, "read_holder", lambda data: next(answers, read_holder(data)))
    after_start(lambda: signal.raise_signal(signal.SIGTERM))
    ran = zoea("serve", "--port", "0")
    assert ran.code == 0, ran.err
    assert "leaves it running" in ran.out


def test_serve_ends_with_the_attached_swarm(
    zoea: Zoea,
    other_owner: OwnerThread,
    after_start: Callable[[Callable[[], object]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serve_command, "SUCCESSOR_TIMEOUT_S", 0.2)
    after_start(other_owner.end)
    ran = zoea("serve", "--port", "0")
    assert ran.code == 0, ran.err
    assert ran.out.endswith("The running swarm has ended.\n")


def test_serve_follows_the_swarm_to_its_next_owner(
    zoea: Zoea,
    other_owner: OwnerThread,
    after_start: Callable[[Callable[[], object]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_over = threading.Event()
    ended: list[BrowserServer] = []

    def take_over() -> None:
        other_owner.thread.join(timeout=20)
        with fake_owner():
            is_over.wait(timeout=20)

    async def end_cockpits(door: BrowserServer) -> None:
        if not ended:
            signal.raise_signal(signal.SIGTERM)
        ended.append(door)

    monkeypatch.setattr(serve_command, "SUCCESSOR_TIMEOUT_S", 20.0)
    monkeypatch.setattr(BrowserServer, "end_cockpits", end_cockpits)
    successor = threading.Thread(target=take_over)
    successor.start()
    after_start(other_owner.end)
    ran = zoea("serve", "--port", "0")
    is_over.set()
    successor.join(timeout=20)
    assert ran.code == 0, ran.err
    assert len(ended) == 2  # once for the swarm that went away, once for the end
    assert "has ended" not in ran.out


def test_a_public_address_is_served_with_a_warning(
    zoea: Zoea, owned_swarm: FakeSwarm, after_start: Callable[[Callable[[], object]], None]
) -> None:
    after_start(lambda: signal.raise_signal(signal.SIGTERM))
    ran = zoea("serve", "--port", "0", "--host", "0.0.0.0")
    assert ran.code == 0, ran.err
    assert "the connection is not encrypted" in ran.err


@pytest.mark.parametrize("arguments", [("--world", "mars"), ("--port", "70000"), ("--myses", "-1")])
def test_wrong_serve_arguments_are_refused(zoea: Zoea, arguments: tuple[str, str]) -> None:
    assert zoea("serve", *arguments).code == 2


def test_an_address_of_another_machine_is_refused(zoea: Zoea) -> None:
    ran = zoea("serve", "--host", "192.0.2.1")
    assert ran.code == 5
    assert "--port 0" in ran.err


def test_serve_read_only_runs_no_swarm_and_says_what_the_address_allows(
    zoea: Zoea, after_start: Callable[[Callable[[], object]], None]
) -> None:
    after_start(lambda: signal.raise_signal(signal.SIGINT))
    ran = zoea("serve", "--port", "0", "--read-only")
    assert ran.code == 0, ran.err
    assert "sees the swarm and commands nothing" in ran.out
    assert not places().database.exists()


@pytest.mark.parametrize(
    "also", [("--myses", "1"), ("--task", "Mine"), ("--start-swarm",), ("--world", "reef"), ("--metrics",)]
)
def test_serve_read_only_starts_nothing(zoea: Zoea, also: tuple[str, ...]) -> None:
    refused = zoea("serve", "--read-only", *also)
    assert refused.code != 0
    assert f"Leave out {also[0]}" in refused.err
