"""A terminal that is closed, cut off or not read: the swarm goes on, over real pseudo-terminals."""

from __future__ import annotations

import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.controlling_terminal import ControllingTerminal, fill, wait_for_successor
from tests.e2e.zoea_process import PATIENCE_S, environment, find_owner, kill_owner, spawn, zoea
from tests.waiting import until_true
from zoea.process.lock import read_holder
from zoea.settings.paths import places

SOAK = bool(os.environ.get("ZOEA_SOAK"))
ROUNDS = range(20 if SOAK else 1)
UNREAD_S = 60.0 if SOAK else 0.0
ZOEA = (sys.executable, "-m", "zoea")
HINDERED = (sys.executable, "-m", "tests.e2e.hindered_cockpit")
RUN = ("run", "--myses", "2", "--provider", "scripted")
BUSY = ("run", "--world", "reef", "--myses", "2", "--start-swarm")
"""Draws all the time, so that a terminal that does not read is full soon."""

pytestmark = [pytest.mark.timeout(60 + 2 * PATIENCE_S + UNREAD_S), pytest.mark.parametrize("attempt", ROUNDS)]


@pytest.fixture(autouse=True)
def _runtime(own_runtime: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ZOEA_WORLD__TICK", "0.2")
    yield
    kill_owner()


@pytest.mark.parametrize("hangup", [True, False], ids=["SIGHUP", "no SIGHUP"])
def test_a_closed_terminal_hands_the_swarm_on(hangup: bool, attempt: int) -> None:
    terminal = ControllingTerminal(*ZOEA, *RUN, hangup=hangup)
    terminal.close()
    wait_for_successor(terminal)


def test_a_closed_terminal_with_make_in_between_hands_the_swarm_on(tmp_path: Path, attempt: int) -> None:
    (tmp_path / "Makefile").write_text(f"run:\n\t@{shlex.join([*ZOEA, *RUN])}\n")
    terminal = ControllingTerminal("make", "-C", str(tmp_path), "run")
    terminal.close()
    wait_for_successor(terminal)


def test_a_terminal_that_does_not_read_does_not_hold_up_the_swarm(attempt: int) -> None:
    terminal = ControllingTerminal(*ZOEA, *BUSY)
    terminal.wait_until_unread(UNREAD_S)
    assert zoea("start", "--all").returncode == 0
    terminal.wait_for("beta")
    assert terminal.process.poll() is None
    assert zoea("stop", "--swarm").returncode == 0
    assert terminal.process.wait(PATIENCE_S) == 0  # a hangup at its very end would be another code
    terminal.close()


def test_a_swarm_ends_in_order_at_sigterm_though_its_terminal_does_not_read(attempt: int) -> None:
    terminal = ControllingTerminal(*ZOEA, *BUSY)
    terminal.wait_until_unread(UNREAD_S)
    os.kill(terminal.owner, signal.SIGTERM)
    assert terminal.process.wait(PATIENCE_S) == 0
    assert read_holder(places("").data) is None
    terminal.close()


def test_a_terminal_that_does_not_read_for_long_is_given_up(tmp_path: Path, attempt: int) -> None:
    terminal = ControllingTerminal(*HINDERED, "small-queue", str(tmp_path / "unused"), *BUSY)
    wait_for_successor(terminal)
    terminal.close()


def test_a_plain_run_ends_in_order_at_sigterm_though_its_terminal_does_not_read(attempt: int) -> None:
    master, terminal = pty.openpty()
    command = [*ZOEA, *RUN, "--plain"]
    with subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL, stdout=terminal) as plain:
        try:
            until_true(find_owner, within=PATIENCE_S)
            assert zoea("start", "--all").returncode == 0
            fill(os.ttyname(terminal))
            plain.send_signal(signal.SIGTERM)
            assert plain.wait(PATIENCE_S) == 0
        finally:
            plain.kill()
            os.close(terminal)
            os.close(master)
    assert "the output of this run is not read" in places("").log.read_text()


@pytest.mark.parametrize("how", ["deadlock", "busy"])
def test_a_blocked_event_loop_cannot_keep_a_swarm_from_its_end(how: str, tmp_path: Path, attempt: int) -> None:
    block = tmp_path / "block"
    terminal = ControllingTerminal(*HINDERED, how, str(block), *RUN)
    block.touch()
    until_true(lambda: not block.exists())
    os.kill(terminal.owner, signal.SIGTERM)
    assert terminal.process.wait(PATIENCE_S) == 1
    assert "did not answer SIGTERM" in places("").log.read_text()
    terminal.close()


def test_a_blocked_event_loop_cannot_keep_a_swarm_from_being_handed_on(tmp_path: Path, attempt: int) -> None:
    block = tmp_path / "block"
    terminal = ControllingTerminal(*HINDERED, "busy", str(block), *RUN)
    block.touch()
    until_true(lambda: not block.exists())
    terminal.close()
    wait_for_successor(terminal)


@pytest.mark.parametrize("front", [("--headless",), ("--json", "--start-swarm")])
def test_two_signals_within_a_moment_are_one_request(front: tuple[str, ...], attempt: int) -> None:
    process = spawn("run", *front, "--myses", "1", "--provider", "scripted")
    until_true(find_owner)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    assert "so the process was ended" not in said
