"""The contract of `SwarmApi`, against the fake here and over the socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.app.contract import SwarmApiContract
from tests.fakes.swarm import FakeSwarm
from zoea.app.remote import RemoteSwarm
from zoea.app.socket_server import SocketServer
from zoea.model.ports import SwarmApi


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
