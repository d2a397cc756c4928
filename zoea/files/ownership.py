"""Records of the worktrees that Zoea made, and locks for their use.

Nothing is removed without a record. The locks are the kernel's, so they end in any way with their process and the git
commands that it started under them.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path

import msgspec
from msgspec import Struct

from zoea.model.errors import FilesError, SettingsError, UsageError, WorkHeld
from zoea.settings.paths import make_private_folder
from zoea.settings.private_file import open_private, write_private
from zoea.settings.small_file import read_small_file

FOLDER = "worktrees"
"""Folder of the data directory with the worktrees and their records."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
_MERGE = re.compile(r"\.merge-[0-9a-f]{16}")
_locks: ContextVar[tuple[int, ...]] = ContextVar("locks", default=())


class Record(Struct, frozen=True):
    """One worktree that Zoea made.

    Attributes:
        name: The mysis; a name that begins with a dot for the temporary worktree of a merge.
        repository: The repository's common git directory.
        top: The working tree that it was made from.
        base: The commit that it began with.
        target: The full name of the branch that it came from; empty where that was none.
        branch: The full name of its own branch; empty for a merge.
        git_dir: Its own git directory; empty until it is made.
        uid: The mysis's, because names are given again; empty for one that a person made.
    """

    name: str
    repository: str
    top: str
    base: str
    target: str = ""
    branch: str = ""
    git_dir: str = ""
    uid: str = ""

    @property
    def is_merge(self) -> bool:
        return self.name.startswith(".")


class Ownership:
    """The records in a data directory."""

    def __init__(self, data: Path) -> None:
        self.root = data / FOLDER

    def path(self, name: str) -> Path:
        """Return the folder of a worktree. Raises UsageError for an invalid name."""
        if not _NAME.fullmatch(name) and not _MERGE.fullmatch(name):
            raise UsageError(
                f"{name!r} is no name of a worktree",
                hint="Use 1 to 32 letters, digits, - or _, a letter or digit first.",
            )
        return self.root / name

    def removed(self, name: str) -> Path:
        """Return the folder of a worktree while it is removed."""
        return self._file(name, "removed")

    def _file(self, name: str, kind: str) -> Path:
        return self.path(name).with_name(f"{name}.{kind}")

    def find(self, name: str) -> Record | None:
        """Return a record, or None. Raises FilesError where it cannot be read."""
        file = self._file(name, "json")
        try:
            record = msgspec.json.decode(read_small_file(file), type=Record)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise FilesError(f"the record {file} cannot be read: {error}", hint="Nothing was removed.") from error
        if record.name != name:
            raise FilesError(f"the record {file} is one of {record.name!r}", hint="Nothing was removed.")
        return record

    def read(self, name: str) -> Record:
        """Return a record. Raises FilesError if there is none, because every change needs one."""
        if (record := self.find(name)) is None:
            raise FilesError(f"Zoea made no worktree for {name}", hint=f"Those that it made are in {self.root}.")
        return record

    def names(self) -> list[str]:
        """Return the names of all records."""
        if not self.root.is_dir():
            return []
        stems = sorted(file.name.removesuffix(".json") for file in self.root.iterdir() if file.name.endswith(".json"))
        return [stem for stem in stems if _NAME.fullmatch(stem) or _MERGE.fullmatch(stem)]

    def write(self, record: Record) -> None:
        """Write a record and flush it to the disk."""
        make_private_folder(self.root)
        try:
            write_private(self._file(record.name, "json"), msgspec.json.encode(record).decode())
        except SettingsError as error:
            raise FilesError(error.what, hint=error.hint) from error
        handle = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def remove(self, name: str) -> None:
        """Remove a record and its locks. The caller holds one of them."""
        for kind in ("json", "use", "lease", "lock"):
            self._file(name, kind).unlink(missing_ok=True)

    def lock(self, name: str) -> AbstractContextManager[None]:
        """Hold a worktree while it is made, committed or removed. Raises WorkHeld."""
        return self._hold(name, "lock", f"another command works with the worktree of {name}", "Try again soon.")

    def lease(self, name: str) -> AbstractContextManager[None]:
        """Hold a worktree while a workbench serves it. Raises WorkHeld."""
        return self._hold(name, "lease", f"a workbench serves the worktree of {name}", f"Stop {name} first.")

    def share(self, name: str) -> AbstractContextManager[None]:
        """Hold a worktree while a tool of another upstream works in it; several may. Raises WorkHeld."""
        return self._hold(name, "use", *self._in_use(name), fcntl.LOCK_SH)

    def _in_use(self, name: str) -> tuple[str, str]:
        return f"a tool works in the worktree of {name}", f"Stop {name} first."

    def check_lease(self, name: str) -> None:
        """Raise WorkHeld while a workbench serves a worktree, or a tool works in it."""
        for kind, held in (("lease", self.lease(name)), ("use", self._hold(name, "use", *self._in_use(name)))):
            if self._file(name, kind).exists():
                with held:
                    pass

    @contextmanager
    def _hold(self, name: str, kind: str, what: str, hint: str, how: int = fcntl.LOCK_EX) -> Iterator[None]:
        file = self._file(name, kind)
        make_private_folder(self.root)
        while True:
            handle = open_private(file, os.O_RDWR | os.O_CREAT)
            with hold_lock(handle, WorkHeld(what, hint=hint), how):
                if os.fstat(handle).st_nlink > 0:
                    yield
                    return
            # It was removed in between.


@contextmanager
def hold_lock(handle: int, refusal: FilesError, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Lock an open file or folder and close it at the end. Raise the refusal where another process holds it.

    Git commands that write hold it too, because they go on if this process is killed.
    """
    try:
        try:
            fcntl.flock(handle, how | fcntl.LOCK_NB)
        except BlockingIOError:
            raise refusal from None
        before = _locks.set((*_locks.get(), handle))
        try:
            yield
        finally:
            _locks.reset(before)
            fcntl.flock(handle, fcntl.LOCK_UN)  # a process that a hook left behind may have it open
    finally:
        os.close(handle)


def list_locks() -> tuple[int, ...]:
    """Return the descriptors that this thread or task has locked."""
    return _locks.get()
