"""Ends the process groups of children with this process, even if it is killed.

`PR_SET_PDEATHSIG` would reach only the direct child, only on Linux, and at the end of the thread that started it.
Instead a small shell, in a session of its own, holds the list of groups and reads a pipe: its end is the end of
this process.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import subprocess
import threading
from contextlib import suppress

log = logging.getLogger(__name__)

END_S = 2.0
"""Longest wait for the shell at the orderly end of this process."""
_SHELL = "/bin/sh"
_SCRIPT = """\
trap '' HUP INT QUIT TERM
groups=
while read -r sign group; do
  case $sign in
    +) groups="$groups $group" ;;
    -) kept=; for one in $groups; do [ "$one" = "$group" ] || kept="$kept $one"; done; groups=$kept ;;
  esac
done
for group in $groups; do kill -KILL "-$group"; done
"""


class GroupGuard:
    """The groups that end with this process. Starts the shell with the first one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None
        self._is_failing = False

    @property
    def pid(self) -> int | None:
        """The process id of the shell; None before the first group."""
        return self._shell.pid if self._shell is not None else None

    def add(self, group: int) -> None:
        """Add a process group that ends with this process. Its id is that of a child with `start_new_session`.

        Raises:
            ValueError: No child of this process has that id, so that a signal would reach others.
        """
        if group <= 1 or group == os.getpgrp():
            raise ValueError(f"{group} is no group of a child")
        with self._lock:
            self._groups.add(group)
            self._tell(f"+ {group}\n")

    def signal(self, group: int, number: signal.Signals) -> None:
        """Send a signal to the processes left in a group that was added, unless others have its id by now."""
        with self._lock:
            if group in self._groups and not _is_of_others(group):
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, number)

    def end(self, group: int) -> None:
        """Kill the processes left in a group, and forget the group."""
        self.signal(group, signal.SIGKILL)
        with self._lock:
            if group in self._groups:
                self._groups.discard(group)
                self._tell(f"- {group}\n")

    def close(self) -> None:
        """End the shell, which kills the groups that are left."""
        with self._lock:
            shell, self._shell = self._shell, None
            self._groups.clear()
        if shell is not None:
            _close(shell)

    def _tell(self, line: str) -> None:
        try:
            if self._shell is None or self._shell.poll() is not None:
                self._start()
            else:
                self._write(line)
        except BrokenPipeError:
            self._start()
        except OSError as error:
            # A machine without processes left; the children still end in the orderly way.
            if not self._is_failing:
                log.warning("children are not guarded: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False

    def _start(self) -> None:
        """Start a shell and tell it all groups."""
        if self._shell is not None:
            _close(self._shell)
        self._shell = subprocess.Popen(
            [_SHELL, "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            bufsize=0,
            start_new_session=True,
        )
        atexit.register(self.close)
        self._write("".join(f"+ {group}\n" for group in sorted(self._groups)))

    def _write(self, text: str) -> None:
        assert self._shell is not None
        assert self._shell.stdin is not None
        self._shell.stdin.write(text.encode())


def _is_of_others(group: int) -> bool:
    """Return whether the id belongs to another process by now, because the kernel reused it.

    It does so only once the group is empty. As long as the child is not reaped, its id is its own.
    """
    try:
        os.waitid(os.P_PID, group, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        try:
            os.kill(group, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True
    return False


def _close(shell: subprocess.Popen[bytes]) -> None:
    if shell.stdin is not None:
        with suppress(OSError):
            shell.stdin.close()
    try:
        shell.wait(END_S)
    except subprocess.TimeoutExpired:
        shell.kill()
        shell.wait()


guard = GroupGuard()
"""The guard of this process."""
