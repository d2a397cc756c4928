"""Fixtures of toolboxes, closed after each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.toolboxes import Faulty
from zoea.tools import Toolbox, UpstreamConfig

Opener = Callable[..., Toolbox]


@pytest.fixture
def faulty(tmp_path: Path) -> Faulty:
    return Faulty(tmp_path)


@pytest.fixture
async def open_box(tmp_path: Path) -> AsyncIterator[Opener]:
    boxes: list[Toolbox] = []

    def opened(*configs: UpstreamConfig, **more: Any) -> Toolbox:
        box = Toolbox(configs, logs=tmp_path / "logs", **more)
        box.open()
        boxes.append(box)
        return box

    yield opened
    for box in boxes:
        await box.close()
