"""The lock of a workspace: one process owns it. The file names its process and socket.

The locks are the kernel's (`flock`), so they are released when their process ends, in any way.
The text in the file informs other processes; only the locks decide. There are two: of the file, which is passed
from process to process, and of the data directory itself, which nobody can remove without the database. The
database file has none, because closing a descriptor of it would drop SQLite's own locks.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from random import uniform
from time import sleep
from types import TracebackType

from msgspec import Struct, convert
from msgspec.structs import asdict

from zoea.model.errors import StoreError, WorkspaceHeld
from zoea.settings.private_file import READ_ONLY, describe_failure, open_private
from zoea.settings.small_file import read_small_text

LOCK_NAME = "zoea.lock"
ACQUIRE_TRIES = 200
_MOST_NOTE = 10_000
_LOCAL_DISK = "Set ZOEA_DATA_DIR to a directory on a local disk; some network file systems have no working locks."


class Holder(Struct, frozen=True):
    """The process that holds a workspace, its socket, and the start in µs UTC.

    The process is None while the lock is taken or released or its file is gone, because the file does not name it then.
    """

    pid: int | None
    socket: str
    since: int = 0


class OwnerLock:
    """The exclusive lock of one workspace, held until `release` or the end of the process.

    Args:
        data: The workspace's data directory; it must exist.
        socket: The socket of the holder, written into the file.
        since: Time of acquisition in µs UTC.
    """

    def __init__(self, data: Path, socket: Path, *, since: int = 0) -> None:
        self.path = data / LOCK_NAME
        self._holder = Holder(os.getpid(), str(socket), since)
        self._descriptor: int | None = None
        self._directory: int | None = None

    def acquire(self) -> None:
        """Take the lock without waiting for another owner.

        Raises:
            WorkspaceHeld: naming the process that has it.
            StoreError: if the file cannot be written, or locks do not hold in its file system.
        """
        self._descriptor = self._take_file()
        try:
            self._directory = _lock_directory(self.path.parent)
            self._write_note(self._descriptor)
        except WorkspaceHeld:
            self._let_go()
            raise
        except OSError as problem:
            self._let_go()
            raise _unwritable(self.path, problem) from problem

    def _take_file(self) -> int:
        """Lock the file and return its descriptor."""
        try:
            descriptor = _inherited(self.path)
            if descriptor is None:
                descriptor = open_private(self.path, os.O_RDWR | os.O_CREAT)
        except OSError as problem:
            raise _unwritable(self.path, problem) from problem
        try:
            is_taken = _taken(descriptor)
            if is_taken and not _holds(self.path, descriptor):
                raise StoreError(f"locks do not hold in {self.path.parent}", hint=_LOCAL_DISK)
        except OSError as problem:
            os.close(descriptor)
            raise StoreError(f"{self.path} cannot be locked: {problem.strerror}", hint=_LOCAL_DISK) from problem
        except StoreError:
            os.close(descriptor)
            raise
        if not is_taken:
            os.close(descriptor)
            raise _held(read_note(self.path))
        return descriptor

    def _write_note(self, descriptor: int) -> None:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(asdict(self._holder)).encode(), 0)

    def restore_file(self) -> bool:
        """Write the lock file again if it was removed, and return whether it was. Other processes find the owner by it.

        Meanwhile the lock of the directory keeps other owners out. Raises OSError.
        """
        if self._descriptor is None or _is_same_file(self._descriptor, self.path):
            return False
        descriptor = open_private(self.path, os.O_RDWR | os.O_CREAT)
        if not _locks(descriptor, fcntl.LOCK_EX):  # a process that tries to own the workspace, and will be refused
            os.close(descriptor)
            return False
        self._write_note(descriptor)
        os.close(self._descriptor)
        self._descriptor = descriptor
        return True

    def pass_on(self, start: Callable[[int], object]) -> None:
        """Hand the lock over to a new process. `start` gets the descriptor to use as its stdin.

        `acquire` in that process finds the lock. It is held without a gap in between;
        this object does not hold it afterwards. Does nothing without the lock.
        """
        if self._descriptor is None:
            return
        if self._directory is not None:
            os.close(self._directory)  # the new process takes it; the file keeps other owners out meanwhile
            self._directory = None
        try:
            start(self._descriptor)
        finally:
            self._let_go()

    def release(self) -> None:
        """Release the lock. Clears the file first, so that no process is sent to a closed socket."""
        if self._descriptor is None:
            return
        os.ftruncate(self._descriptor, 0)
        self._let_go()

    def _let_go(self) -> None:
        # The directory first, so that a process which gets the file finds it free.
        for descriptor in (self._directory, self._descriptor):
            if descriptor is not None:
                os.close(descriptor)
        self._directory = self._descriptor = None

    def __enter__(self) -> OwnerLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _inherited(path: Path) -> int | None:
    """Return the lock's descriptor if it was passed to this process as stdin."""
    if not _is_same_file(0, path):
        return None
    descriptor = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)  # a child process would inherit stdin and keep the lock
    os.close(null)
    return descriptor


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except OSError:  # it is closed, or there is no file
        return False


def _lock_directory(data: Path) -> int | None:
    """Lock the data directory; return its descriptor, None where the file system cannot lock directories.

    Raises:
        WorkspaceHeld: An owner has it, whose lock file was removed.
    """
    descriptor = os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _taken(descriptor):
            return descriptor
    except OSError:  # NFS locks only what is open for writing
        os.close(descriptor)
        return None
    os.close(descriptor)
    raise _held(None)


def _held(note: Holder | None) -> WorkspaceHeld:
    return WorkspaceHeld(
        f"{f'process {note.pid}' if note else 'another process'} is running this workspace",
        hint="`zoea run` shows it, `zoea stop --swarm` ends it; stored data is kept.",
    )


def _taken(descriptor: int) -> bool:
    """Take the lock unless an owner has it. Waits for a `read_holder` that shares it for a moment."""
    for _ in range(ACQUIRE_TRIES):
        if _locks(descriptor, fcntl.LOCK_EX):
            return True
        if not _locks(descriptor, fcntl.LOCK_SH):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        sleep(uniform(0.001, 0.005))  # random, so that two processes that start at once do not collide again
    return False


def _locks(descriptor: int, how: int) -> bool:
    """Take a lock if no other process prevents it. Raises OSError where the file system has no locks."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holds(path: Path, descriptor: int) -> bool:
    """Check that a lock excludes another descriptor: the owner's kind and SQLite's kind.

    Some network file systems accept locks that exclude no one, and two owners would damage the database.
    """
    other = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if _locks(other, fcntl.LOCK_EX):
            return False
        if not hasattr(fcntl, "F_OFD_SETLK"):  # only Linux has locks of a descriptor
            return True
        first_byte = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
        try:
            fcntl.fcntl(other, fcntl.F_OFD_SETLK, first_byte)
        except BlockingIOError:
            return True
        finally:
            fcntl.lockf(descriptor, fcntl.LOCK_UN, 1)
        return False
    finally:
        os.close(other)


def read_holder(data: Path) -> Holder | None:
    """Return the process that holds the workspace; None if it is free."""
    path = data / LOCK_NAME
    if _is_held(path, os.O_NOFOLLOW | os.O_NONBLOCK):
        return read_note(path) or Holder(None, "")
    # An owner whose file was removed or replaced writes it again soon; until then its directory shows that it is there.
    return Holder(None, "") if _is_held(data, os.O_DIRECTORY) else None


def _is_held(path: Path, flags: int) -> bool:
    try:
        descriptor = os.open(path, flags | os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # there is none, or no owner can hold it: opening the workspace says why
        return False
    try:
        return not _locks(descriptor, fcntl.LOCK_SH)
    except OSError:  # the file system has no locks, so no owner can hold one
        return False
    finally:
        os.close(descriptor)


def read_note(path: Path) -> Holder | None:
    """Read the text of the lock file; None if it cannot be parsed."""
    try:
        note = convert(json.loads(read_small_text(path, _MOST_NOTE)), Holder)
    except (OSError, ValueError, RecursionError):
        return None
    return note if note.pid is not None and note.pid > 0 else None


def _unwritable(path: Path, problem: OSError) -> StoreError:
    what = f"{path} cannot be written: {describe_failure(problem)}"
    if problem.errno in READ_ONLY:
        return StoreError(
            what,
            hint="No swarm can run in a directory that you may not write. "
            "`zoea list`, `log`, `search` and `export` still read it.",
        )
    return StoreError(what, hint=f"Check the free space and the permissions of {path.parent}.")
