"""Fixtures of the tests that run the real `zoea`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture
def own_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A short directory for sockets, because that of a test may be longer than a socket's path."""
    with tempfile.TemporaryDirectory(prefix="zoea-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield


@pytest.fixture(autouse=True)
def _forked(forked_programs: None) -> None:
    """Fork for each program that a test starts in any way."""
