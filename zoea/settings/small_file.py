"""Reads small files, and refuses what is too large or no regular file."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 1_000_000
MOST_FOREIGN_BYTES = 16_000_000
"""Bytes of a file of another program, which may keep more than its settings there."""


def open_regular(file: Path, flags: int = 0) -> BinaryIO:
    """Open a regular file to read its bytes. Never waits for the writer of a pipe.

    Raises:
        OSError: It cannot be read, or is no file.
    """
    handle = os.open(file, flags | os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a file", str(file))
    return os.fdopen(handle, "rb")


def read_small_file(file: Path, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a regular file.

    Never waits for the writer of a pipe, and reads no device or file without end.

    Raises:
        OSError: It cannot be read, is no file, or is larger than `most` bytes.
    """
    with open_regular(file) as stream:
        raw = stream.read(most + 1)
    if len(raw) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", str(file))
    return raw


def read_small_text(file: Path, most: int = MOST_BYTES) -> str:
    """Return the text of a regular file. Raises as `read_small_file`, and UnicodeDecodeError."""
    return read_small_file(file, most).decode("utf-8-sig").replace("\r\n", "\n")
