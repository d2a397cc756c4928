"""Fixtures of the tests of external agents."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _forked(forked_programs: None) -> None:
    """Fork for each agent that a test starts."""
