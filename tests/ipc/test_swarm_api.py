"""The contract of `SwarmApi`, against the fake and the Commander, here and over the socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.fakes.swarm import FakeSwarm
from tests.ipc.swarm_api_contract import SwarmApiContract
from zoea.ipc.remote_swarm import RemoteSwarm
from zoea.ipc.socket_server import SocketServer
from zoea.model.swarm_api import SwarmApi
from zoea.runtime.compose import SwarmOptions, running_swarm
from zoea.settings.paths import Places


class TestFake(SwarmApiContract):
    @pytest.fixture
    async def swarm(self) -> SwarmApi:
        return FakeSwarm()


class TestFakeOverTheSocket(SwarmApiContract):
    @pytest.fixture
    async def swarm(self, runtime: Path) -> AsyncIterator[SwarmApi]:
        fake = FakeSwarm()
        server = SocketServer(fake, runtime / "s.sock")
        await server.open()
        async with await RemoteSwarm.connect(server.path) as remote:
            yield remote
        await server.close()


@asynccontextmanager
async def commander(runtime: Path, tmp_path: Path) -> AsyncIterator[SwarmApi]:
    """A real swarm with the scripted provider, without upstreams and nudges."""
    where = Places(data=tmp_path / "data", config=tmp_path / "config", runtime=runtime)
    where.make_data()
    swarm_options = SwarmOptions(overrides={"swarm.default_provider": "scripted", "nudge.enabled": False})
    async with running_swarm(where, lambda: None, options=swarm_options) as swarm:
        yield swarm


class TestCommander(SwarmApiContract):
    @pytest.fixture
    async def swarm(self, runtime: Path, tmp_path: Path) -> AsyncIterator[SwarmApi]:
        async with commander(runtime, tmp_path) as swarm:
            yield swarm


class TestCommanderOverTheSocket(SwarmApiContract):
    @pytest.fixture
    async def swarm(self, runtime: Path, tmp_path: Path) -> AsyncIterator[SwarmApi]:
        async with commander(runtime, tmp_path) as swarm:
            server = SocketServer(swarm, runtime / "s.sock")
            await server.open()
            async with await RemoteSwarm.connect(server.path) as remote:
                yield remote
            await server.close()
