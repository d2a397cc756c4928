"""Write files that only their owner may read, atomically and under a lock."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from zoea.model.errors import SettingsError


def write_private(file: Path, text: str) -> None:
    """Replace a file (mode 0600) in one step; a crash leaves the old or the new one.

    Raises:
        SettingsError: It cannot be written; the old file is unchanged.
    """
    draft = file.with_name(f".{file.name}.{secrets.token_hex(6)}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(file)
    except OSError as error:
        with suppress(OSError):  # the first error is the one to report
            draft.unlink(missing_ok=True)
        _raise_unwritable(file, error)


@contextmanager
def lock_file(file: Path) -> Iterator[None]:
    """Hold a lock beside a file, so that changes by two processes do not overwrite each other.

    Raises:
        SettingsError: The lock cannot be created.
    """
    lock = file.with_name(f".{file.name}.lock")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        _raise_unwritable(file, error)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _raise_unwritable(file: Path, error: OSError) -> NoReturn:
    raise SettingsError(
        f"{file} cannot be written: {error.strerror}",
        hint=f"Check the free space and the permissions of {file.parent}.",
    ) from error
