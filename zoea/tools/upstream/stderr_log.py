"""Log files for the stderr of upstream processes, one per upstream, bounded in size.

The child writes into a pipe and the loop copies its lines to the file. So the file can be rotated
while the child runs, and a flood of output neither blocks the child nor fills the disk.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from zoea.settings.paths import make_private_folder
from zoea.settings.private_file import open_private
from zoea.text.control_characters import reveal

logger = logging.getLogger(__name__)

CHUNK = 8_192
"""Bytes that are read at once, because masking them takes the event loop 5 ms."""
MAX_BYTES = 1_000_000
_LONGEST_LINE = 65_536
_LAST_READS = 16


class StderrLog:
    """The log of one upstream's processes; the older part is in `NAME.log.1`.

    Several processes may write at once (`per-mysis`). All calls belong to one loop.

    Args:
        mask: Hides secrets in whole lines before they are written. A line of over 64 kB comes in parts.
    """

    def __init__(
        self, path: Path, *, max_bytes: int = MAX_BYTES, mask: Callable[[str], str] = lambda text: text
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._mask = mask
        self._readers: dict[int, bytes] = {}
        self._is_failing = False

    @property
    def is_read(self) -> bool:
        """Whether a child still holds its end of a pipe."""
        return bool(self._readers)

    def attach(self) -> TextIO:
        """Open a pipe for one child. The caller closes the returned end once the child has it.

        Raises:
            OSError: The folder cannot be created, or no more files can be opened.
        """
        make_private_folder(self.path.parent)
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        asyncio.get_running_loop().add_reader(reader, self._copy, reader)
        self._readers[reader] = b""
        return os.fdopen(writer, "w", encoding="utf-8", errors="replace")

    def close(self) -> None:
        """Copy the remaining output and stop reading, even if a child still writes."""
        for reader in tuple(self._readers):
            for _ in range(_LAST_READS):
                self._copy(reader)
            self._drop(reader)

    def _copy(self, reader: int) -> None:
        if reader not in self._readers:
            return
        try:
            data = os.read(reader, CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._drop(reader)
            return
        data = self._readers[reader] + data
        end = _find_end(data)
        self._readers[reader] = data[end:]
        if end:
            self._write(data[:end])

    def _write(self, data: bytes) -> None:
        # A log is looked at in a terminal, to which the child must not speak.
        data = reveal(self._mask(data.decode("utf-8", "surrogateescape"))).encode("utf-8")
        try:
            size = self.path.stat().st_size if self.path.exists() else 0
            if size + len(data) > self._max_bytes and size:
                self.path.replace(self.path.with_name(self.path.name + ".1"))
            with open(self.path, "ab", opener=open_private) as file:
                file.write(data)
        except OSError as error:
            # A full disk must not stop the child: its output is dropped, after one warning.
            if not self._is_failing:
                logger.warning("cannot write %s: %s", self.path, error)
            self._is_failing = True
        else:
            self._is_failing = False

    def _drop(self, reader: int) -> None:
        if (rest := self._readers.pop(reader, None)) is None:
            return
        asyncio.get_running_loop().remove_reader(reader)
        os.close(reader)
        if rest:
            self._write(rest)


def _find_end(data: bytes) -> int:
    """Return where the last whole line ends that is not inside of a private key."""
    end = data.rfind(b"\n") + 1
    key = data.rfind(b"PRIVATE KEY-----", 0, end)
    if key >= 0 and b"-----BEGIN " in data[max(0, key - 40) : key]:
        end = data.rfind(b"\n", 0, key) + 1
    if len(data) - end < _LONGEST_LINE:
        return end
    return max(data.rfind(b" "), data.rfind(b"\n")) + 1 or len(data)
