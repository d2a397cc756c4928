"""The cockpit of a browser ends when its pipes close."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.app import App

from zoea.tui.terminal import browser_driver
from zoea.tui.terminal.browser_driver import BrowserDriver, main

WITHIN_S = 20.0


class Watchdog:
    """Ends nothing, and keeps what it would have done."""

    begun: list[float]
    daemon = False

    def __init__(self, seconds: float, _end: Callable[..., Any], _arguments: tuple[int]) -> None:
        self._seconds = seconds

    def start(self) -> None:
        Watchdog.begun.append(self._seconds)


async def test_it_ends_with_its_input_even_if_its_output_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from_browser, keys = os.pipe()
    drawn, to_browser = os.pipe()
    Watchdog.begun = []
    monkeypatch.setattr("zoea.tui.terminal.browser_driver.threading.Timer", Watchdog)
    with os.fdopen(from_browser) as stdin, os.fdopen(to_browser, "w") as stdout:
        monkeypatch.setattr("sys.__stdin__", stdin)
        monkeypatch.setattr("sys.__stdout__", stdout)
        app: App[None] = App()
        app.driver_class = BrowserDriver
        running = asyncio.create_task(app.run_async())
        greeting = await asyncio.to_thread(os.read, drawn, 13)
        os.close(drawn)
        driver = app._driver
        assert isinstance(driver, BrowserDriver)
        driver.write("drawn")
        driver.write_meta({"type": "open_url"})
        os.close(keys)
        await asyncio.wait_for(running, WITHIN_S)
        driver._key_thread.join(WITHIN_S)
        assert not driver._key_thread.is_alive()
    assert greeting == b"__GANGLION__\n"
    assert Watchdog.begun == [browser_driver.END_S]


def test_it_says_why_the_workspace_cannot_be_opened(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from zoea.model.errors import NoRunningSwarm

    def refuse(_cockpit: object, _log: object) -> str:
        raise NoRunningSwarm("nobody answers")

    monkeypatch.setattr(browser_driver, "show_cockpit", refuse)
    assert main(["reef"]) == 5
    assert capsys.readouterr().err == "No running swarm: nobody answers\n"
