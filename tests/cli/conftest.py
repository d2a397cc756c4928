"""Run commands in this process through `zoea.__main__.run`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.fakes.owner import OwnerThread, fake_owner
from tests.fakes.swarm import FakeSwarm
from zoea import __main__
from zoea.cli import run_session
from zoea.model.swarm_api import SwarmApi
from zoea.runtime import compose
from zoea.settings.paths import Places


@dataclass(frozen=True)
class CommandResult:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Zoea = Callable[..., CommandResult]


@pytest.fixture
def zoea(capsys: pytest.CaptureFixture[str]) -> Zoea:
    def run(*arguments: str) -> CommandResult:
        code = __main__.run(list(arguments))
        wrote = capsys.readouterr()
        return CommandResult(code, wrote.out, wrote.err)

    return run


@pytest.fixture
def other_owner(own_runtime: None) -> Iterator[OwnerThread]:
    """A swarm that runs in another thread, with a real lock and a real socket."""
    with fake_owner() as owner:
        yield owner


@pytest.fixture
def owned_swarm(monkeypatch: pytest.MonkeyPatch) -> FakeSwarm:
    """Replace the swarm that a command owns, and what it stored. The watchdog does not end the test process."""
    swarm = FakeSwarm()

    @asynccontextmanager
    async def running(
        _where: Places, on_shutdown: Callable[[], None], *, options: compose.SwarmOptions
    ) -> AsyncIterator[SwarmApi]:
        swarm.on_shutdown = on_shutdown
        yield swarm

    monkeypatch.setattr(compose, "running_swarm", running)
    monkeypatch.setattr(run_session, "read_swarm_view", lambda _database: asyncio.run(swarm.view()))
    monkeypatch.setattr("zoea.runtime.owner.threading.Timer", lambda *_: _NoTimer())
    return swarm


class _NoTimer:
    daemon = False

    def start(self) -> None:
        """Do nothing: the watchdog must not end the test process."""
