"""Signals of an event loop that answers, and of one that does not."""

from __future__ import annotations

import asyncio
import os
import threading
from signal import Signals

import pytest

from zoea.process import signal_watchdog
from zoea.process.signal_watchdog import SignalWatchdog

PATIENCE_S = 30.0


@pytest.fixture(autouse=True)
def _short_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal_watchdog, "ANSWER_S", 0.2)


async def test_a_signal_is_handled_in_the_event_loop() -> None:
    handled: asyncio.Queue[Signals] = asyncio.Queue()
    unanswered: list[Signals] = []
    watchdog = SignalWatchdog(unanswered.append)
    watchdog.handle((Signals.SIGUSR1,), handled.put_nowait)
    watchdog.handle((Signals.SIGUSR2,), handled.put_nowait)
    for number in (Signals.SIGUSR1, Signals.SIGUSR2):
        os.kill(os.getpid(), number)
        assert await asyncio.wait_for(handled.get(), PATIENCE_S) is number
    watchdog.close()
    os.kill(os.getpid(), Signals.SIGUSR1)
    assert await asyncio.wait_for(handled.get(), PATIENCE_S) is Signals.SIGUSR1
    assert unanswered == []


async def test_a_blocked_event_loop_is_reported_and_handles_the_signal_later() -> None:
    handled: asyncio.Queue[Signals] = asyncio.Queue()
    reported = threading.Event()
    watchdog = SignalWatchdog(lambda _: reported.set())
    watchdog.handle((Signals.SIGUSR1,), handled.put_nowait)
    os.kill(os.getpid(), Signals.SIGUSR1)
    assert reported.wait(PATIENCE_S)
    assert handled.empty()
    assert await asyncio.wait_for(handled.get(), PATIENCE_S) is Signals.SIGUSR1
    watchdog.close()


async def test_a_signal_can_be_raised_from_a_thread() -> None:
    handled: asyncio.Queue[Signals] = asyncio.Queue()
    watchdog = SignalWatchdog(lambda _: None)
    watchdog.handle((Signals.SIGUSR1,), handled.put_nowait)
    await asyncio.to_thread(watchdog.raise_signal, Signals.SIGUSR1)
    assert await asyncio.wait_for(handled.get(), PATIENCE_S) is Signals.SIGUSR1
    watchdog.close()
    watchdog.raise_signal(Signals.SIGUSR1)
