"""Fixtures of the tests of external agents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agents.agent_harness import agent_swarm
from tests.swarm.harness import Swarm


@pytest.fixture(autouse=True)
def _forked(forked_programs: None) -> None:
    """Fork for each agent that a test starts."""


@pytest.fixture
async def one_swarm(tmp_path: Path) -> AsyncIterator[Swarm]:
    """A swarm whose agent is asked for each case of a table, turn by turn."""
    async with agent_swarm(tmp_path) as s:
        yield s
