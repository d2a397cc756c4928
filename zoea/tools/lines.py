"""Whole lines of a child's output, of bounded length.

The SDK joins and splits all that came since the last newline at each read: a line of
100 MB takes it a minute of the loop's time, and one without end all memory. Here
pieces wait until their newline has come, and a line beyond the bound ends the session.
"""

from __future__ import annotations

import logging

from anyio import BrokenResourceError, EndOfStream
from anyio.streams.text import TextReceiveStream

logger = logging.getLogger(__name__)

MAX_LINE_CHARS = 32 * 1024 * 1024
"""The longest message that a child may send."""


class Lines(TextReceiveStream):
    """Decoded output, handed out up to a newline and no further."""

    def __post_init__(self, encoding: str, errors: str) -> None:
        super().__post_init__(encoding, errors)
        self._waiting: list[str] = []
        self._size = 0

    async def receive(self) -> str:
        """The lines that are whole by now; what is left where the output ends.

        Raises:
            BrokenResourceError: a line is too long.
            EndOfStream: there is no more.
        """
        while True:
            try:
                piece = await super().receive()
            except EndOfStream:
                if not self._waiting:
                    raise
                return self._taken("")
            whole, newline, rest = piece.rpartition("\n")
            if newline:
                taken = self._taken(whole + newline)
                self._keep(rest)
                return taken
            self._keep(piece)
            if self._size > MAX_LINE_CHARS:
                self._waiting.clear()
                logger.info("an upstream's process sent a line of over %d characters", MAX_LINE_CHARS)
                # The SDK would go on to read what still comes, and end the session only after that.
                await self.transport_stream.aclose()
                raise BrokenResourceError

    def _keep(self, piece: str) -> None:
        if piece:
            self._waiting.append(piece)
            self._size += len(piece)

    def _taken(self, last: str) -> str:
        taken = "".join([*self._waiting, last])
        self._waiting.clear()
        self._size = 0
        return taken
