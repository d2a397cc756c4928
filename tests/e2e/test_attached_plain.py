"""`zoea run --plain` beside a swarm that runs: commands are typed in a real terminal, and the swarm outlasts it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator

import pytest

from tests.e2e.controlling_terminal import fill
from tests.e2e.zoea_process import PATIENCE_S, ask, environment, find_owner, read_peak_kb, spawn, zoea
from tests.waiting import until_true

pytestmark = pytest.mark.timeout(60 + 2 * PATIENCE_S)


class PlainTerminal:
    """A plain front in a pseudo-terminal."""

    def __init__(self) -> None:
        self.master, terminal = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "zoea", "run", "--plain"],
            env=environment(),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        self.name = os.ttyname(terminal)
        os.close(terminal)

    def type(self, words: str) -> None:
        data = words.encode() + b"\n"
        while data:
            data = data[os.write(self.master, data) :]

    def wait_until_read(self) -> None:
        """Wait until the front has read what was typed."""
        terminal = os.open(self.name, os.O_RDWR | os.O_NOCTTY)
        until_true(lambda: not int.from_bytes(fcntl.ioctl(terminal, termios.FIONREAD, bytes(4)), sys.byteorder))
        os.close(terminal)

    def wait_for(self, words: str) -> str:
        """Read until the words were shown; return what was shown since the last time."""
        shown, deadline = b"", time.monotonic() + PATIENCE_S
        while words.encode() not in shown:
            assert time.monotonic() < deadline, shown.decode(errors="replace")
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    shown += os.read(self.master, 65_536)
                except OSError:
                    raise AssertionError(f"it ended before it showed {words!r}:\n{shown!r}") from None
        return shown.decode(errors="replace").replace("\r\n", "\n")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.master)


@pytest.fixture
def owner(own_runtime: None) -> Iterator[subprocess.Popen[str]]:
    words = "run --headless --json --myses 2 --provider scripted"
    process = spawn(*words.split(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until_true(find_owner, within=PATIENCE_S)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def attached(owner: subprocess.Popen[str]) -> Iterator[PlainTerminal]:
    terminal = PlainTerminal()
    try:
        terminal.wait_for(f"Attached to the swarm of process {owner.pid}; quit leaves it running.")
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.wait()
        terminal.close()


def test_typed_commands_reach_the_swarm_and_quit_leaves_it_running(
    owner: subprocess.Popen[str], attached: PlainTerminal
) -> None:
    attached.type("send alpha hello from the terminal")
    attached.wait_for("Answered prompt")
    assert "hello from the terminal" in zoea("log", "alpha").stdout
    attached.type("stop beta")
    attached.wait_for("beta is stopped")
    attached.type("send nobody hello")
    attached.wait_for("there is no mysis 'nobody'")
    attached.type("quit")
    attached.wait_for("The swarm runs on: `zoea run` shows it again")
    assert attached.process.wait(PATIENCE_S) == 0
    assert owner.poll() is None
    assert '"stopped"' in zoea("show", "beta", "--json").stdout


def test_a_closed_terminal_ends_the_front_and_not_the_swarm(
    owner: subprocess.Popen[str], attached: PlainTerminal
) -> None:
    attached.close()
    zoea("send", "alpha", "hello")
    assert attached.process.wait(PATIENCE_S) == 0
    assert owner.poll() is None
    assert zoea("list").returncode == 0


def test_a_front_says_that_the_swarm_has_ended(owner: subprocess.Popen[str], attached: PlainTerminal) -> None:
    assert zoea("stop", "--swarm").returncode == 0
    attached.wait_for("The running swarm has ended")
    assert attached.process.wait(PATIENCE_S) == 0
    assert owner.wait(PATIENCE_S) == 0


def test_a_front_of_a_killed_owner_says_which_typed_lines_were_not_carried_out(
    owner: subprocess.Popen[str], attached: PlainTerminal
) -> None:
    owner.send_signal(signal.SIGSTOP)  # so that the first line is under way, and the others wait
    attached.type("send alpha first")
    attached.wait_for("send alpha first")  # its echo: before it the terminal has nothing to be read
    attached.wait_until_read()
    attached.type("send alpha second\nstop beta")
    owner.kill()
    shown = attached.wait_for("Not carried out: stop beta\r\n")
    assert "The running swarm has ended; `zoea run` opens it again\n" in shown
    assert "Not confirmed, it may have been carried out: send alpha first\n" in shown
    assert "Not carried out: send alpha second\n" in shown
    assert attached.process.wait(PATIENCE_S) == 0


def test_a_line_of_ten_megabytes_is_refused_and_the_next_is_carried_out(
    owner: subprocess.Popen[str], attached: PlainTerminal
) -> None:
    before = read_peak_kb(attached.process.pid)
    threading.Thread(target=attached.type, args=["send alpha " + "x" * 10_000_000], daemon=True).start()
    attached.wait_for(
        "The terminal passes on at most 4,095 bytes of a line, and may have cut this one: save the text in"
    )
    attached.type("stop beta")
    attached.wait_for("beta is stopped")
    assert ask("SELECT count(*) FROM message") == [(0,)]
    assert read_peak_kb(attached.process.pid) - before < 20_000


def test_a_front_that_is_not_read_holds_up_no_one_and_ends_at_sigterm(
    owner: subprocess.Popen[str], attached: PlainTerminal
) -> None:
    fill(attached.name)
    assert zoea("send", "alpha", "hello").returncode == 0
    until_true(lambda: ask("SELECT 1 FROM turn WHERE outcome = 'answered'"), within=PATIENCE_S)
    assert "Answered prompt" in zoea("log", "alpha").stdout
    attached.process.send_signal(signal.SIGTERM)
    assert attached.process.wait(PATIENCE_S) == 0
    assert owner.poll() is None
