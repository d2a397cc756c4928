"""Workspaces as a release left them, unpacked where `zoea` looks for its data."""

from __future__ import annotations

import asyncio
import gzip
import shutil
from pathlib import Path

import pytest

from tests.released.swarm_settings import write_swarm_settings
from zoea.store.store import Store

RELEASE = Path(__file__).parent / "0.1.0"


@pytest.fixture(autouse=True)
def _place(own_runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a short folder for the socket and UTC for local days."""
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """The released workspace in the data directory; returns the path of its `zoea.db`."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    for name in ("zoea.db", "reef.db"):
        (data / name).write_bytes(gzip.decompress((RELEASE / f"{name}.gz").read_bytes()))
    shutil.copy(RELEASE / "credentials.toml", data / "credentials.toml")
    (data / "credentials.toml").chmod(0o600)
    write_swarm_settings(tmp_path / "config", pace_s=0)
    return data / "zoea.db"


@pytest.fixture
def migrated(database: Path) -> Path:
    """The same, brought to the present schema, as commands that only read need it."""

    async def migrate() -> None:
        await (await Store.open(database, clock_now=lambda: 0)).close(30)

    asyncio.run(migrate())
    return database
