"""Read a small file that a person or another program may have replaced by anything."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 1_000_000


def read_small_file(file: Path, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a regular file.

    Never waits for the writer of a pipe, and reads no device or file without end.

    Raises:
        OSError: It cannot be read, is no file, or is larger than `most` bytes.
    """
    handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a file", str(file))
        with os.fdopen(handle, "rb", closefd=False) as stream:
            raw = stream.read(most + 1)
    finally:
        os.close(handle)
    if len(raw) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", str(file))
    return raw


def read_small_text(file: Path, most: int = MOST_BYTES) -> str:
    """Return the text of a regular file. Raises as `read_small_file`, and UnicodeDecodeError."""
    return read_small_file(file, most).decode("utf-8-sig").replace("\r\n", "\n")
