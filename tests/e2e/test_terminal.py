"""Both fronts in a real terminal: typed commands, quitting, hangups."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from tests.e2e.zoea_process import PATIENCE_S, environment, find_owner
from tests.waiting import until_true

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("own_runtime")]


class Terminal:
    """A command on a pseudo-terminal: what it showed so far, and its keyboard."""

    opened: ClassVar[list[Terminal]] = []
    """Those of the running test."""

    def __init__(self, *arguments: str) -> None:
        self._keyboard, screen = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "zoea", *arguments],
            env=environment(),
            stdin=screen,
            stdout=screen,
            stderr=screen,
            start_new_session=True,
        )
        os.close(screen)
        self.shown = ""
        self._waited = 0
        self.opened.append(self)

    def type(self, line: str) -> None:
        self._waited = len(self.shown)  # what it says to this comes after
        os.write(self._keyboard, f"{line}\n".encode())

    def press(self, key: str) -> None:
        self._waited = len(self.shown)
        os.write(self._keyboard, key.encode())

    def wait_for(self, text: str) -> None:
        """Read until `text` appears after the last typed or awaited text. It may have come with that."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.shown.find(text, self._waited)) < 0:
            assert time.monotonic() < deadline, f"{text!r} was never shown:\n{self.shown}"
            if select.select([self._keyboard], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self._keyboard, 65_536).decode("utf-8", "replace")
                except OSError:
                    raise AssertionError(f"it ended before it showed {text!r}:\n{self.shown}") from None
        self._waited = found + len(text)

    def end(self) -> int:
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            # Its last words are read: one that draws a screen waits until somebody has.
            assert time.monotonic() < deadline, f"it did not end:\n{self.shown}"
            if select.select([self._keyboard], [], [], 0.2)[0]:
                with contextlib.suppress(OSError):
                    self.shown += os.read(self._keyboard, 65_536).decode("utf-8", "replace")
        os.close(self._keyboard)
        return self.process.returncode

    @property
    def modes(self) -> list[Any]:
        """What the terminal does with keys by itself: echo them, make signals of them."""
        return termios.tcgetattr(self._keyboard)

    def hang_up(self) -> None:
        os.close(self._keyboard)


@pytest.fixture(autouse=True)
def _end_processes() -> Iterator[None]:
    """End what a failed test leaves running."""
    yield
    for terminal in Terminal.opened:
        terminal.process.kill()
        terminal.process.wait()
    Terminal.opened.clear()


def test_typed_commands_are_answered_and_quit_asks() -> None:
    terminal = Terminal("run", "--plain", "--myses", "2", "--provider", "scripted")
    terminal.wait_for("Type help")
    terminal.type("help")
    terminal.wait_for("help NAME shows the words")
    terminal.type("list")
    terminal.wait_for("beta")
    terminal.type("dance")
    terminal.wait_for("There is no command 'dance'")
    terminal.type("send nobody hello")
    terminal.wait_for("No such mysis")
    terminal.type("send alpha hello there")
    terminal.wait_for("alpha")
    terminal.type("quit")
    terminal.wait_for("Stop the swarm?")
    terminal.type("no")
    terminal.wait_for("continues")
    terminal.type("quit")
    terminal.wait_for("Stop the swarm?")
    terminal.type("quit")  # who types it twice means it
    terminal.wait_for("tokens")
    assert terminal.end() == 0


def test_a_closed_terminal_leaves_the_swarm_running_and_another_attaches() -> None:
    first = Terminal("run", "--plain", "--myses", "1", "--provider", "scripted")
    first.wait_for("Type help")
    first.hang_up()
    os.killpg(first.process.pid, 1)
    second = Terminal("run", "--plain")
    second.wait_for("Attached to the swarm")
    second.type("list")
    second.wait_for("alpha")
    second.type("quit")
    assert second.end() == 0
    assert first.process.poll() is None
    first.process.terminate()
    assert first.process.wait(timeout=PATIENCE_S) == 0


def test_the_cockpit_opens_and_quits_with_everything_stored() -> None:
    terminal = Terminal("run", "--myses", "2", "--provider", "scripted")
    terminal.wait_for("beta")
    terminal.press("q")
    terminal.wait_for("end the swarm")
    terminal.press("s")
    assert terminal.end() == 0
    listed = subprocess.run(
        [sys.executable, "-m", "zoea", "list"], env=environment(), capture_output=True, text=True, check=True
    )
    assert "alpha" in listed.stdout


def test_a_cockpit_that_loses_its_terminal_leaves_the_swarm_running() -> None:
    first = Terminal("run", "--myses", "1", "--provider", "scripted")
    first.wait_for("alpha")
    first.hang_up()
    os.killpg(first.process.pid, 1)
    assert first.process.wait(timeout=PATIENCE_S) == 0
    second = _attached()
    second.type("quit")
    assert second.end() == 0
    subprocess.run([sys.executable, "-m", "zoea", "stop", "--swarm"], env=environment(), timeout=PATIENCE_S, check=True)
    until_true(lambda: not find_owner())


def test_a_terminal_that_stays_is_restored_after_a_hangup() -> None:
    """As after `kill -HUP` from elsewhere: the swarm runs on, and the shell in this terminal can be used."""
    first = Terminal("run", "--myses", "1", "--provider", "scripted")
    before = first.modes
    first.wait_for("alpha")
    assert first.modes != before
    os.kill(first.process.pid, signal.SIGHUP)
    first.wait_for("\x1b[?1049l\x1b[?25h")
    assert first.modes == before
    assert first.end() == 0
    assert first.shown.count("\x1b[?1049l") == 1
    until_true(find_owner)
    subprocess.run([sys.executable, "-m", "zoea", "stop", "--swarm"], env=environment(), timeout=PATIENCE_S, check=True)
    until_true(lambda: not find_owner())


def test_a_cockpit_ends_when_another_front_ends_the_swarm() -> None:
    terminal = Terminal("run", "--myses", "1", "--provider", "scripted")
    terminal.wait_for("alpha")
    subprocess.run([sys.executable, "-m", "zoea", "stop", "--swarm"], env=environment(), timeout=PATIENCE_S, check=True)
    assert terminal.end() == 0


def test_the_swarm_can_be_left_running_without_a_screen() -> None:
    first = Terminal("run", "--plain", "--myses", "1", "--provider", "scripted")
    first.wait_for("Type help")
    first.type("leave")
    first.wait_for("runs on without a screen")
    assert first.end() == 0
    second = _attached()
    second.type("quit")
    assert second.end() == 0
    ended = subprocess.run(
        [sys.executable, "-m", "zoea", "stop", "--swarm"], env=environment(), timeout=PATIENCE_S, check=False
    )
    assert ended.returncode == 0
    until_true(lambda: not find_owner())


def _attached() -> Terminal:
    """Beside the process that runs the swarm on: coming before it, a front would own the swarm instead."""
    until_true(find_owner)
    terminal = Terminal("run", "--plain")
    terminal.wait_for("Attached to the swarm")
    return terminal
