"""Measuring how long the event loop was held up."""

from __future__ import annotations

import asyncio
import importlib
import threading
from pathlib import Path

import pytest

from tests.waiting import until
from zoea.process.loop_lag import LAG_S, measured_lag

NOW = 1_700_000_000_000_000


def hold_up_the_loop() -> None:
    threading.Event().wait(3 * LAG_S)


async def test_a_loop_that_runs_has_no_lag() -> None:
    with measured_lag(lambda: NOW) as lag:
        for _ in range(5):
            await asyncio.sleep(0)
        assert lag.last.lag_ms == 0


async def test_a_hold_up_is_measured_and_its_code_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with measured_lag(lambda: NOW) as lag:
        hold_up_the_loop()
        await until(lambda: lag.last.at)
    assert lag.last.at == NOW
    assert lag.last.lag_ms > LAG_S * 1_000
    assert "the event loop was held up for" in caplog.text
    assert "hold_up_the_loop (" in caplog.text


async def test_a_hold_up_by_an_import_names_the_module_and_who_imports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "slow_module.py").write_text(f"import threading\nthreading.Event().wait({3 * LAG_S})")
    monkeypatch.syspath_prepend(tmp_path)
    with measured_lag(lambda: NOW) as lag:
        importlib.import_module("slow_module")
        await until(lambda: lag.last.at)
    assert "slow_module.py:2) called by import_module (" in caplog.text
    assert "importlib._bootstrap" not in caplog.text
