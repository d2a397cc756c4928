"""Reads the lines that a person types, one at a time and in bounded memory."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections import deque
from collections.abc import AsyncIterator
from typing import IO

from msgspec import Struct

READ_BYTES = 65_536
LONGEST = 1_000_000
"""Bytes of a line at most."""
CUT_AT = 1023 if sys.platform == "darwin" else 4095
"""A terminal passes on at most so many bytes of a line, and drops the rest without a word."""
_INSTEAD = "save the text in a file and give `zoea send NAME - < FILE`"


class TypedLine(Struct, frozen=True):
    """A line without its end. `problem` says why it cannot run, and is empty if it can."""

    text: str
    problem: str = ""


class TypedLines:
    """The lines of a terminal or a pipe.

    Nothing is read while a line is carried out: what is typed then waits in the terminal.

    Args:
        source: A descriptor or a file, used from the first read on. It stays in blocking mode, because a terminal
            shares the mode with stdout. A copy of it is read, which still reports a hangup after `detach_terminal`.

    Attributes:
        current: The line that is being carried out; empty where none is.
    """

    def __init__(self, source: int | IO[str]) -> None:
        self.current = ""
        self._source = source
        self._descriptor = -1
        self._is_terminal = False
        self._whole: deque[TypedLine] = deque()
        self._begun = bytearray()
        self._size = 0

    def close(self) -> None:
        """Close the copy of the descriptor. Later calls do nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    async def read(self) -> AsyncIterator[TypedLine]:
        """Yield each line until the end of the input. The last one needs no end of line."""
        self._descriptor = os.dup(self._source if isinstance(self._source, int) else self._source.fileno())
        self._is_terminal = os.isatty(self._descriptor)
        while True:
            while self._whole:
                line = self._whole.popleft()
                self.current = line.text
                yield line
                self.current = ""  # not where the reader was cancelled in the middle of it
            if not await self._wait() or not (chunk := self._read()):
                break
            self._split(chunk)
        if self._size:
            self._end_line()
            yield self._whole.popleft()

    def take_unread(self) -> list[str]:
        """Return the lines that were typed and not yielded. A shell would read them as its own commands."""
        while self._descriptor >= 0 and select.select([self._descriptor], [], [], 0)[0] and (chunk := self._read()):
            self._split(chunk)
        unread = [line.text for line in self._whole if line.text.strip()]
        self._whole.clear()
        return unread

    async def _wait(self) -> bool:
        """Wait until something can be read. False where that cannot be waited for."""
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        try:
            loop.add_reader(self._descriptor, arrived.set)
        except PermissionError:
            # The terminal was closed before the first read: /dev/null, which cannot be watched, is in its place.
            return False
        try:
            await arrived.wait()
        finally:
            loop.remove_reader(self._descriptor)
        return True

    def _read(self) -> bytes:
        try:
            return os.read(self._descriptor, READ_BYTES)
        except OSError:
            return b""

    def _split(self, chunk: bytes) -> None:
        *ends, rest = chunk.split(b"\n")
        for piece in ends:
            self._add(piece)
            self._end_line()
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > LONGEST:
            self._begun.clear()
        else:
            self._begun += piece

    def _end_line(self) -> None:
        text, problem = self._begun.decode("utf-8", "replace"), ""
        if self._size > LONGEST:
            problem = f"A line of {self._size:,} bytes is too long, at most {LONGEST:,} fit: {_INSTEAD}"
        elif self._is_terminal and self._size >= CUT_AT:
            problem = (
                f"The terminal passes on at most {CUT_AT:,} bytes of a line, and may have cut this one: {_INSTEAD}"
            )
        self._whole.append(TypedLine(text, problem))
        self._begun.clear()
        self._size = 0
