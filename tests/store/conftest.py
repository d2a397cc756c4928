"""A store on a real file, with a clock that the test sets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.database_template import create_file
from zoea.store import store as store_module
from zoea.store.migrate import migrate
from zoea.store.store import Store

NOON = 1_763_726_400_000_000


class SettableClock:
    """A clock in µs UTC that moves only when set."""

    def __init__(self) -> None:
        self.time = NOON

    def now(self) -> int:
        return self.time


@pytest.fixture(autouse=True)
def _every_database_is_migrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the real migrations of every database, and wait for the disk."""
    monkeypatch.setattr(store_module, "_create_file", create_file)
    monkeypatch.setattr(store_module, "migrate", migrate)


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "zoea.db"


@pytest.fixture
async def store(path: Path, clock: SettableClock) -> AsyncIterator[Store]:
    store = await Store.open(path, clock_now=clock.now)
    yield store
    await store.close()
