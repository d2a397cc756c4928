"""The cockpit of a browser ends when its pipes close. It takes no more input than it handles."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.events import AppFocus, Key, Paste, Resize
from textual.message import Message

from tests.waiting import until
from zoea.tui.terminal import browser_driver
from zoea.tui.terminal.browser_driver import BrowserDriver, main
from zoea.tui.terminal.paced_driver import MOST_WAITING

WITHIN_S = 20.0


class DeafApp(App[None]):
    """An app that keeps the messages it is sent."""

    async def _post_message(self, message: Message) -> bool:
        taken.append(message)
        return True


taken: list[Message] = []


def packet(kind: bytes, payload: bytes) -> bytes:
    return kind + len(payload).to_bytes(4, "big") + payload


@pytest.fixture
async def keys(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[BrowserDriver, int]]:
    """A driver whose input thread runs, and the pipe to it."""
    from_server, to_driver = os.pipe()
    drawn, output = os.pipe()
    taken.clear()
    with os.fdopen(from_server) as stdin, os.fdopen(output, "w") as stdout:
        monkeypatch.setattr("sys.__stdin__", stdin)
        monkeypatch.setattr("sys.__stdout__", stdout)
        driver = BrowserDriver(DeafApp())
        reading = threading.Thread(target=driver.run_input_thread)
        reading.start()
        yield driver, to_driver
        driver.exit_event.set()
        await asyncio.to_thread(reading.join)
    os.close(to_driver)
    os.close(drawn)


async def test_bad_bytes_and_impossible_keys_are_dropped_and_a_long_text_is_one_paste(
    keys: tuple[BrowserDriver, int], caplog: pytest.LogCaptureFixture
) -> None:
    long = "dig at the belt, then sell. " * 1_000
    size = json.dumps({"type": "resize", "width": 90, "height": 20}).encode()
    sent = (
        (b"D", b"\xff\xe9a"),
        (b"D", b"\x1b[99999999999u"),
        (b"D", b"\x1b[48;0;99999999;9;9t"),
        (b"M", size),
        (b"M", b'{"type": "focus"}'),
        (b"D", b""),
        (b"D", long.encode()),
    )
    for kind, payload in sent:
        await asyncio.to_thread(os.write, keys[1], packet(kind, payload))
    await until(lambda: any(isinstance(message, Paste) for message in taken))
    os.write(keys[1], packet(b"D", b"q"))
    await until(lambda: any(isinstance(message, Key) and message.key == "q" for message in taken))
    assert [message.key for message in taken if isinstance(message, Key)][2:] == ["a", "q"]
    assert [message.text for message in taken if isinstance(message, Paste)] == [long]
    assert [message.size for message in taken if isinstance(message, Resize)] == [(90, 20)]
    assert any(isinstance(message, AppFocus) for message in taken)
    assert "a key or size that cannot exist" in caplog.text


async def test_a_packet_of_many_keys_waits_for_the_app(keys: tuple[BrowserDriver, int]) -> None:
    counts: list[int] = []

    def count() -> int:
        counts.append(len(taken))
        return counts[-1]

    keys[0].count_waiting(count)
    sizes = packet(b"M", b'{"type": "resize", "width": 90, "height": 20}') * 8_000
    flood = packet(b"D", b"\x1b[B" * 8_000) + sizes + packet(b"D", b"q")
    writing = asyncio.create_task(asyncio.to_thread(_write_all, keys[1], flood))
    await until(lambda: len(counts) > 4 and MOST_WAITING < counts[-1] == counts[-4])
    assert len(taken) < MOST_WAITING + 10
    assert not writing.done()

    def has_last() -> bool:
        last = taken[-1] if taken else None
        taken.clear()
        return isinstance(last, Key) and last.key == "q"

    await until(has_last)
    await writing


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


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
        driver.write("drawn \ud800")
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
