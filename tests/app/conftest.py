"""What tests of the app's doors share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A directory with a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="zoea-") as folder:
        yield Path(folder)
