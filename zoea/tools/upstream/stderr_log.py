"""Where a child's stderr goes: a log per upstream, kept small, never the screen.

The child writes into a pipe and the loop carries it into the file, so that the
file can be turned over at a bound while the child lives, and a flood of output
neither blocks the child nor fills the disk.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import TextIO

logger = logging.getLogger(__name__)

CHUNK = 65_536
MAX_BYTES = 1_000_000


class StderrLog:
    """The log of one upstream's children, oldest part in `NAME.log.1`.

    Several children may write at once (`per-mysis`). All calls belong to one loop.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._readers: set[int] = set()
        self._failing = False

    def attach(self) -> TextIO:
        """A writable end for one child; the caller closes it once the child has it.

        Raises:
            OSError: The folder cannot be made, or no more files can be opened.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        asyncio.get_running_loop().add_reader(reader, self._carry, reader)
        self._readers.add(reader)
        return os.fdopen(writer, "w", encoding="utf-8", errors="replace")

    def close(self) -> None:
        """Stop reading, whoever still writes."""
        for reader in tuple(self._readers):
            self._carry(reader)
            self._drop(reader)

    def _carry(self, reader: int) -> None:
        if reader not in self._readers:
            return
        try:
            data = os.read(reader, CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._drop(reader)
            return
        try:
            self._append(data)
        except OSError as error:
            # A full disk must not stop the child: what it says is let go, once it is said so.
            if not self._failing:
                logger.warning("cannot write %s: %s", self.path, error)
            self._failing = True
        else:
            self._failing = False

    def _append(self, data: bytes) -> None:
        size = self.path.stat().st_size if self.path.exists() else 0
        if size + len(data) > self._max_bytes and size:
            self.path.replace(self.path.with_name(self.path.name + ".1"))
        with open(self.path, "ab", opener=_private) as file:
            file.write(data)

    def _drop(self, reader: int) -> None:
        self._readers.discard(reader)
        asyncio.get_running_loop().remove_reader(reader)
        os.close(reader)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
