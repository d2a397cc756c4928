"""One process owns a workspace: a file lock that says who holds it and where it listens.

The lock is the kernel's (`flock`), so it goes when its process does, however
that ends. The text in the file is a note for others and never the proof.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from random import uniform
from time import sleep
from types import TracebackType

from zoea.model.errors import StoreError, WorkspaceHeld

LOCK_NAME = "zoea.lock"
ASKERS_TRIES = 200


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a workspace: its process, its socket, and since when (µs UTC)."""

    pid: int
    socket: str
    since: int = 0


class OwnerLock:
    """The right to write one workspace, held until `release` or the end of the process.

    Args:
        data: The workspace's data directory; it must exist.
        socket: Where the holder listens; written into the file for the others.
        since: When it took the workspace, µs UTC.
    """

    def __init__(self, data: Path, socket: Path, *, since: int = 0) -> None:
        self.path = data / LOCK_NAME
        self._holder = Holder(os.getpid(), str(socket), since)
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock at once or not at all.

        Raises:
            WorkspaceHeld: naming the process that has it.
            StoreError: nothing can be written there.
        """
        try:
            descriptor = _inherited(self.path)
            if descriptor is None:
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise _unwritable(self.path, problem) from problem
        if not _taken(descriptor):
            os.close(descriptor)
            raise WorkspaceHeld(_who(read_note(self.path)), hint="Attach to it with `zoea run`, or end it.")
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(asdict(self._holder)).encode(), 0)
        except OSError as problem:
            os.close(descriptor)
            raise _unwritable(self.path, problem) from problem
        self._descriptor = descriptor

    def pass_on(self, start: Callable[[int], object]) -> None:
        """Have `start` begin a process with this descriptor as its stdin: it holds the workspace from its first moment.

        There `acquire` finds the lock. In between nobody else can take it; here it is not held any more.
        """
        assert self._descriptor is not None
        try:
            start(self._descriptor)
        finally:
            os.close(self._descriptor)
            self._descriptor = None

    def release(self) -> None:
        """Give it up. The note goes first, so nobody is sent to a socket that is closed."""
        if self._descriptor is None:
            return
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
        self._descriptor = None

    def __enter__(self) -> OwnerLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _inherited(path: Path) -> int | None:
    """The lock's descriptor, where whoever started this process has passed it on as stdin."""
    try:
        given, file = os.fstat(0), path.stat()
        if (given.st_dev, given.st_ino) != (file.st_dev, file.st_ino):
            return None
    except OSError:  # there is no stdin, or no file yet
        return None
    descriptor = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    nowhere = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nowhere, 0)  # what this process starts would hold the workspace after it
    os.close(nowhere)
    return descriptor


def _taken(descriptor: int) -> bool:
    """Take the lock unless an owner has it. Waits for a `read_holder` that shares it for a moment."""
    for _ in range(ASKERS_TRIES):
        if _locks(descriptor, fcntl.LOCK_EX):
            return True
        if not _locks(descriptor, fcntl.LOCK_SH):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        sleep(uniform(0.001, 0.005))  # two that start at once do not meet again and again
    return False


def _locks(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def read_holder(data: Path) -> Holder | None:
    """Who holds the workspace now, or None where nobody does."""
    path = data / LOCK_NAME
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return read_note(path) or Holder(0, "")
    finally:
        os.close(descriptor)
    return None


def read_note(path: Path) -> Holder | None:
    """What the lock file says, or None where it says nothing readable."""
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        return Holder(int(note["pid"]), str(note["socket"]), int(note["since"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _who(note: Holder | None) -> str:
    return f"process {note.pid} is running this workspace" if note else "another process is running this workspace"


def _unwritable(path: Path, problem: OSError) -> StoreError:
    return StoreError(
        f"{path} cannot be written: {problem.strerror}", hint=f"Check the space and the rights of {path.parent}."
    )
