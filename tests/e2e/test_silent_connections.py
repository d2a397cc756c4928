"""Connections without a token take nothing from the swarm and its fronts.

A lack of descriptors takes nothing either.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.e2e.serve_process import served
from tests.e2e.zoea_process import zoea

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("own_runtime")]

SILENT = 1_200
FILES = 1_024
"""The limit of files that most systems give to a process."""
LOG_BYTES = 50_000


@pytest.fixture
def _many_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], SILENT + FILES), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def open_silently(stack: ExitStack, address: tuple[str, int], many: int) -> None:
    for _ in range(many):
        stack.enter_context(socket.create_connection(address, timeout=20))


def count_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def measure_logs() -> int:
    """The bytes of the owner's log and of its rotated parts."""
    return sum(log.stat().st_size for log in Path(os.environ["ZOEA_DATA_DIR"]).glob("zoea.log*"))


@pytest.mark.usefixtures("_many_files")
async def test_silent_connections_leave_the_owner_its_fronts_and_its_log() -> None:
    async with served("--myses", "1", "--provider", "scripted") as owner:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.prlimit(owner.process.pid, resource.RLIMIT_NOFILE, (FILES, hard))
        url = urlsplit(owner.address)
        assert url.hostname is not None
        assert url.port is not None
        with ExitStack() as stack:
            await asyncio.to_thread(open_silently, stack, (url.hostname, url.port), SILENT)

            said = await asyncio.to_thread(zoea, "send", "alpha", "hello")
            assert said.returncode == 0, said.stderr
            listed = await asyncio.to_thread(zoea, "list", "--json")
            assert listed.returncode == 0, listed.stderr
            assert [mysis["name"] for mysis in json.loads(listed.stdout)] == ["alpha"]
            async with aiohttp.ClientSession() as browser, browser.get(owner.address) as page:
                assert page.status == 200
            assert count_files(owner.process.pid) < FILES // 2
        assert measure_logs() < LOG_BYTES


async def test_fronts_reach_an_owner_whose_descriptors_are_all_in_use() -> None:
    async with served("--myses", "1", "--provider", "scripted") as owner:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.prlimit(owner.process.pid, resource.RLIMIT_NOFILE, (count_files(owner.process.pid), hard))
        for command in (("send", "alpha", "hello"), ("stop", "alpha")):
            said = await asyncio.to_thread(zoea, *command)
            assert said.returncode == 0, said.stderr
        listed = await asyncio.to_thread(zoea, "list", "--json")
        assert [mysis["state"] for mysis in json.loads(listed.stdout)] == ["stopped"]
