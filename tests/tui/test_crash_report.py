"""The report of a cockpit that crashed holds no values of the program."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
from rich.console import Console

from tests.fakes.llm_clock import HandClock
from zoea.tui.app import CockpitApp

KEY = "sk-canary-4711-xanthic-zebra"


def fail_with(typed_key: str) -> NoReturn:
    """Raise an error in a frame whose local variable is a secret."""
    raise ZeroDivisionError(f"after {len(typed_key)} characters")


@contextmanager
def no_swarm(*_: Any) -> Iterator[None]:
    yield


def test_a_typed_key_reaches_neither_the_crash_report_nor_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = CockpitApp(no_swarm, config=tmp_path, reduced_motion=True, now=HandClock(0).now)  # type: ignore[arg-type]  # it never opens
    with caplog.at_level(logging.DEBUG):
        try:
            fail_with(KEY)
        except ZeroDivisionError as error:
            app._handle_exception(error)
    console = Console(file=io.StringIO(), width=200)
    console.print(*app._exit_renderables)
    assert isinstance(console.file, io.StringIO)
    report = console.file.getvalue()
    assert "after 28 characters" in report
    assert "fail_with" in report
    assert KEY not in report
    assert KEY not in caplog.text
    assert "the cockpit ended because of an unexpected error" in caplog.text
