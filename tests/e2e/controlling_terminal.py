"""Open a pseudo-terminal for a cockpit, with a session of its own. So closing it is a hangup."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

from tests.e2e.zoea_process import PATIENCE_S, environment, find_owner, zoea
from tests.fakes.fork_server import control_terminal, control_without_hangup
from tests.waiting import until_true
from zoea.process.lock import read_holder
from zoea.settings.paths import places

FULL_S = 1.5
"""Seconds without a new byte in a terminal that is full; a busy cockpit writes each second."""


class ControllingTerminal:
    """A program in a session with a controlling terminal, until its swarm runs.

    Args:
        command: The program and its arguments.
        hangup: Whether the program gets the SIGHUP of its terminal; else it ignores it, as a shell or `nohup` can.
    """

    def __init__(self, *command: str, hangup: bool = True) -> None:
        self.master, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))

        self.process = subprocess.Popen(
            command,
            env={**environment(), "TERM": "xterm-256color", "LANG": "C.UTF-8"},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            preexec_fn=control_terminal if hangup else control_without_hangup,
        )
        os.close(terminal)
        self.wait_for("2 myses")
        holder = read_holder(places("").data)
        assert holder is not None
        assert holder.pid is not None
        self.owner = holder.pid

    def wait_for(self, words: str) -> None:
        """Read until the words were shown."""
        shown, deadline = b"", time.monotonic() + PATIENCE_S
        while words.encode() not in shown:
            assert time.monotonic() < deadline, shown.decode(errors="replace")
            if select.select([self.master], [], [], 0.2)[0]:
                shown += os.read(self.master, 65_536)

    def wait_until_unread(self, unread_s: float) -> None:
        """Wait until the terminal holds all that it can hold, and `unread_s` longer."""
        held, since = -1, 0.0

        def is_full() -> bool:
            nonlocal held, since
            now = int.from_bytes(fcntl.ioctl(self.master, termios.FIONREAD, b"\0" * 4), sys.byteorder)
            if now != held:
                held, since = now, time.monotonic()
            return held > 0 and time.monotonic() - since > FULL_S

        until_true(is_full, within=PATIENCE_S)
        threading.Event().wait(unread_s)

    def close(self) -> None:
        os.close(self.master)


def wait_for_successor(terminal: ControllingTerminal) -> None:
    """Wait until another process runs the swarm and answers; then end the swarm."""

    until_true(lambda: find_owner() not in (0, terminal.owner))
    assert terminal.process.wait(PATIENCE_S) is not None
    assert not Path(f"/proc/{terminal.owner}/exe").exists()
    assert zoea("stop", "--swarm").returncode == 0


def fill(terminal: str) -> None:
    """Fill the terminal of this name until it takes nothing more from its writers."""
    # Opened again, so that only this descriptor does not wait.
    again = os.open(terminal, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)

    def is_full() -> bool:
        try:
            os.write(again, b"x" * 100)
        except BlockingIOError:
            return True
        return False

    until_true(is_full)
    until_true(is_full)
    os.close(again)
