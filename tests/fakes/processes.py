"""Looks at processes of the system."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

_PROC = Path("/proc")


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and was not reaped does not."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def wait_for_end(pid: int, *, within: float = 15.0) -> None:
    """Return once a process has ended; fail at the deadline."""
    until = time.monotonic() + within
    while is_alive(pid):
        assert time.monotonic() < until, f"process {pid} still runs after {within:g} s"
        time.sleep(0.01)


def wait_until_none(find: Callable[[], dict[int, str]], *, within: float = 10.0) -> dict[int, str]:
    """Wait until nothing is found; return what is left at the deadline."""
    until = time.monotonic() + within
    while (found := find()) and time.monotonic() < until:
        time.sleep(0.1)
    return found


def find_children(parent: int) -> dict[int, str]:
    """Find the running children of a process, without Python's own resource tracker."""
    found: dict[int, str] = {}
    for folder in _PROC.glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            continue
        if int(stat[1]) == parent and stat[0] not in "ZX" and "resource_tracker" not in command:
            found[int(folder.name)] = command
    return found


def find_processes(marks: tuple[str, ...]) -> dict[int, str]:
    """Find the running processes with one of these texts in their environment or command line."""
    wanted = [mark.encode() for mark in marks]
    found: dict[int, str] = {}
    for folder in _PROC.glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue  # ended, or another user's
        is_marked = any(mark in command or mark in environment for mark in wanted)
        if is_marked and int(folder.name) != os.getpid() and is_alive(int(folder.name)):
            found[int(folder.name)] = command.replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return found


def count_descriptors(pid: int | None = None) -> int:
    """The open descriptors of a process, else of this one."""
    return sum(1 for _ in Path(f"/proc/{pid or 'self'}/fd").iterdir())
