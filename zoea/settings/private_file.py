"""Write files that only their owner may read, atomically and under a lock."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from zoea.model.errors import SettingsError
from zoea.settings.paths import make_private_folder

PRIVATE = 0o600
READ_ONLY = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
"""The errors of opening a file to write in a directory that may only be read."""


def write_private(file: Path, text: str) -> None:
    """Replace a file (mode 0600) in one step. A crash leaves the old or the new one.

    Raises:
        SettingsError: It cannot be written; the old file is unchanged.
    """
    draft = file.with_name(f".{file.name}.{secrets.token_hex(6)}")
    try:
        make_private_folder(file.parent)
        handle = open_private(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(file)
    except OSError as error:
        with suppress(OSError):  # the first error is the one to report
            draft.unlink(missing_ok=True)
        _raise_unwritable(file, error)


def open_private(file: Path | str, flags: int) -> int:
    """Open a file with mode 0600, and never through a symbolic link.

    An existing file with more rights loses them. Usable as an `opener` of `open`. Never waits for the end of a pipe.

    Raises:
        OSError: It cannot be opened, or is no file. ELOOP: it is a symbolic link.
    """
    handle = os.open(file, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, PRIVATE)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a file", str(file))
        if found.st_mode & 0o077 and found.st_uid == os.getuid():
            os.fchmod(handle, PRIVATE)
    except BaseException:
        os.close(handle)
        raise
    return handle


def describe_failure(error: OSError) -> str:
    """Return what went wrong with a file that `open_private` could not open."""
    if error.errno == errno.ELOOP:
        return "it is a symbolic link, which Zoea does not follow for its own files"
    return error.strerror or str(error)


@contextmanager
def lock_file(file: Path) -> Iterator[None]:
    """Hold a lock beside a file, so that two processes do not overwrite changes.

    Raises:
        SettingsError: The lock cannot be created.
    """
    lock = file.with_name(f".{file.name}.lock")
    try:
        make_private_folder(file.parent)
        handle = open_private(lock, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        _raise_unwritable(file, error)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _raise_unwritable(file: Path, error: OSError) -> NoReturn:
    raise SettingsError(
        f"{file} cannot be written: {describe_failure(error)}",
        hint=f"Check the free space and the permissions of {file.parent}.",
    ) from error
