"""Fixtures of the tests that run the real `zoea`."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _forked(forked_programs: None) -> None:
    """Fork for each program that a test starts in any way."""
