"""Descriptors that are kept in reserve for the connections of fronts."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import until
from zoea.process import connection_limit
from zoea.process.connection_limit import BoundedListener, ConnectionLimit, DescriptorReserve


@pytest.fixture
def reserve(monkeypatch: pytest.MonkeyPatch) -> Iterator[DescriptorReserve]:
    monkeypatch.setattr(connection_limit, "REFILL_S", 0.01)
    made = DescriptorReserve(size=4)
    made.fill()
    yield made
    made.close()


def list_descriptors() -> list[int]:
    return [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]


def count_descriptors() -> int:
    return len(list_descriptors())


async def test_a_reserve_is_freed_once_and_then_filled_again(reserve: DescriptorReserve) -> None:
    before = count_descriptors()
    assert reserve.release()
    assert count_descriptors() == before - 4
    assert not reserve.release()
    await until(lambda: count_descriptors() == before)
    assert reserve.release()


def test_a_closed_reserve_holds_nothing() -> None:
    before = count_descriptors()
    made = DescriptorReserve(size=4)
    made.fill()
    made.close()
    assert count_descriptors() == before


async def test_a_connection_that_finds_no_descriptor_gets_one_of_the_reserve(
    reserve: DescriptorReserve, tmp_path: Path
) -> None:
    heard = socket.socket(socket.AF_UNIX)
    heard.bind(str(tmp_path / "s"))
    heard.listen()
    listener = BoundedListener(heard, ConnectionLimit(8, None, 10.0), reserve)
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(tmp_path / "s"))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(list_descriptors())
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(highest)]  # so that no lower number is free
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(held) + 1, before[1]))
    try:
        connection, _ = listener.accept()
        connection.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in held:
            os.close(descriptor)
    client.close()
    listener.close()
