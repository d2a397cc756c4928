"""A store on a real file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from zoea.process.clock import SystemClock
from zoea.store.store import Store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "zoea.db", clock_now=SystemClock().now)
    yield opened
    await opened.close()
