"""Ends the process groups of children with this process, even if it is killed.

`PR_SET_PDEATHSIG` would reach only the direct child, only on Linux, and at the end of the thread that started it.
Instead a small shell, in a session of its own, holds the list of groups and reads a pipe: its end is the end of
this process.

A process that leaves its group is found by a mark in its environment, on systems that show it below /proc. One that
clears its environment is not found.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from asyncio.subprocess import Process
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from secrets import token_hex
from typing import Any

log = logging.getLogger(__name__)

END_S = 2.0
"""Longest wait for the shell at the orderly end of this process."""
MARK = "ZOEA_RUN"
"""The variable whose value marks a child and what it starts."""
_LONGEST_PAUSE_S = 0.05
"""Between the starts of two children."""
_MOST_ROUNDS = 200
_ROUND_S = 0.01
_SHELL = "/bin/sh"
_SCRIPT = """\
trap '' HUP INT QUIT TERM
groups=
while read -r sign group mark; do
  case $sign in
    +) groups="$groups $group,$mark" ;;
    -) kept=; for one in $groups; do [ "${one%,*}" = "$group" ] || kept="$kept $one"; done; groups=$kept ;;
  esac
done
marks=
for one in $groups; do
  kill -KILL "-${one%,*}"
  [ -z "${one#*,}" ] || marks="$marks -e ${one#*,}"
done
[ "$marks" ] || exit 0
for round in 1 2 3 4 5 6 7 8; do
  found=$(grep -lsF $marks /proc/[0-9]*/environ)
  [ "$found" ] || exit 0
  for one in $found; do one=${one#/proc/}; kill -KILL "${one%/environ}"; done
done
"""


class GroupGuard:
    """The groups that end with this process. Starts the shell with the first one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[int, str] = {}
        self._shell: subprocess.Popen[bytes] | None = None
        self._is_failing = False

    @property
    def pid(self) -> int | None:
        """The process id of the shell; None before the first group."""
        return self._shell.pid if self._shell is not None else None

    def add(self, group: int, mark: str = "") -> None:
        """Add a process group that ends with this process. Its id is that of a child with `start_new_session`.

        Args:
            mark: A value of `make_mark` in the child's environment. What left the group ends with this process too.

        Raises:
            ValueError: No child of this process has that id, so that a signal would reach others.
        """
        if group <= 1 or group == os.getpgrp():
            raise ValueError(f"{group} is no group of a child")
        with self._lock:
            self._groups[group] = mark
            self._tell(f"+ {group} {mark}\n")

    def signal(self, group: int, number: signal.Signals) -> None:
        """Signal the processes left in an added group, unless others have its id now."""
        with self._lock:
            if group in self._groups and not _is_of_others(group):
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, number)

    def end(self, group: int) -> None:
        """Kill the processes left in a group, and forget the group."""
        self.signal(group, signal.SIGKILL)
        with self._lock:
            if group in self._groups:
                del self._groups[group]
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
        self._write("".join(f"+ {group} {mark}\n" for group, mark in sorted(self._groups.items())))

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


async def start_child(*command: str, mark: str = "", **options: Any) -> Process:
    """Start a child program, which ends with this process, as does its group.

    asyncio holds up the event loop until the kernel runs the child: 1 ms, or 20 where earlier children use every
    core. So the next start waits as long as this one took, while keys and answers have their turn.

    Args:
        command: The program and its arguments.
        mark: One of `make_mark` for its environment. What leaves its group ends with this process, too.
        options: See `asyncio.create_subprocess_exec`. `env` must be there with a mark.

    Raises:
        OSError, ValueError: The program cannot be run.
    """
    if mark:
        options["env"] = {**options["env"], MARK: mark}
    loop = asyncio.get_running_loop()
    turn = _turn_of(loop)
    await turn.acquire()
    began = time.monotonic()
    # Called as soon as the kernel has the child. What comes then may last for ever where the start is cancelled.
    loop.call_soon(lambda: loop.call_later(min(time.monotonic() - began, _LONGEST_PAUSE_S), turn.release))
    process = await asyncio.create_subprocess_exec(*command, start_new_session=True, **options)
    guard.add(process.pid, mark)
    if process.stdin is not None and sys.version_info < (3, 12):
        # Until 3.11.4 asyncio logs an error where a child ends before it has read all of its input.
        closed: asyncio.Future[None] = vars(process.stdin)["_protocol"]._stdin_closed
        closed.add_done_callback(lambda done: done.cancelled() or done.exception())
    return process


@lru_cache(maxsize=1)
def _turn_of(loop: asyncio.AbstractEventLoop) -> asyncio.Lock:
    return asyncio.Lock()  # waiters of another loop must not wake those of this one


def make_mark() -> str:
    """Return a value of `MARK` for the environment of one child."""
    return token_hex(8)


def find_marked(mark: str) -> list[int]:
    """Return the running processes with a mark; none on systems without /proc. It blocks."""
    return [pid for folder in Path("/proc").glob("[0-9]*") if _is_marked(pid := int(folder.name), mark)]


def end_marked(mark: str) -> None:
    """Kill the processes with a mark, and those that they still start. It blocks."""
    ending: set[int] = set()
    for _ in range(_MOST_ROUNDS):
        processes = find_marked(mark)
        for pid in ending.union(processes):
            if pid in processes:
                _kill_marked(pid, mark)
            try:  # what this process adopted, it has to reap
                has_ended = os.waitpid(pid, os.WNOHANG)[0] != 0
            except ChildProcessError:
                has_ended = True
            (ending.discard if has_ended else ending.add)(pid)
        if not processes and not ending:
            return
        time.sleep(_ROUND_S)
    log.warning("what a child started does not end: processes %s", ", ".join(map(str, ending.union(processes))))


def _is_marked(pid: int, mark: str) -> bool:
    try:
        return f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or belongs to another user
        return False


def _kill_marked(pid: int, mark: str) -> None:
    """Kill a process that still has the mark. The pidfd never refers to another process."""
    if sys.platform != "linux":
        return
    with suppress(OSError):
        held = os.pidfd_open(pid)
        try:
            if _is_marked(pid, mark):
                signal.pidfd_send_signal(held, signal.SIGKILL)
        finally:
            os.close(held)


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
