"""The protocol of a provider's connection, with bounds for all but an answer's body.

aiohttp bounds each header (8,190 bytes) and their number (128), but neither a head in all, interim answers, the
extensions of a chunk, nor what a server sends on a connection that waits in the pool.
"""

from __future__ import annotations

from typing import Any

from aiohttp import ClientPayloadError
from aiohttp.client_proto import ResponseHandler

MAX_HEAD_BYTES = 64 * 1024
"""The most that a head, trailers or the extensions of a chunk may take."""
MAX_INTERIM = 16
"""Interim answers (103 Early Hints and others) before an answer."""
MAX_UNASKED = 4
"""Answers that may wait without a request before the connection is closed."""


class BoundExceeded(ClientPayloadError):
    """A server sent more than a bound."""


class BoundedResponseHandler(ResponseHandler):
    """Closes the connection when a server sends more than the bounds."""

    def __init__(self, loop: Any) -> None:
        super().__init__(loop)
        self._messages = 0
        self._interim = 0
        self._without_progress = 0
        self._progress = (0, 0)

    def set_response_params(self, **options: Any) -> None:
        """Begin a request, and count its bounds from zero."""
        self._interim = self._without_progress = 0
        super().set_response_params(**options)

    def resume_reading(self, *args: Any, **options: Any) -> None:
        """Go on after a pause; aiohttp's reader calls this for every piece, paused or not."""
        if self._reading_paused:
            super().resume_reading(*args, **options)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        payload = self._payload
        progress = (self._messages, getattr(payload, "total_bytes", 0))
        if progress != self._progress or self._reading_paused:  # a reader that is slow is not the server's fault
            self._progress, self._without_progress = progress, 0
        else:
            self._without_progress += len(data)
        if self._without_progress > MAX_HEAD_BYTES:
            self._refuse(f"over {MAX_HEAD_BYTES // 1024} kB that are neither head nor body")

    def feed_data(self, data: Any, size: int = 0) -> None:
        message = data[0]
        if 100 <= message.code < 200 and message.code != 101:
            self._interim += 1
            if self._interim > MAX_INTERIM:
                self._refuse(f"over {MAX_INTERIM} interim answers")
                return
        else:
            self._messages += 1
        if sum(len(name) + len(value) for name, value in message.raw_headers) > MAX_HEAD_BYTES:
            self._refuse(f"a head of over {MAX_HEAD_BYTES // 1024} kB")
            return
        super().feed_data(data, size)
        if len(self._buffer) > MAX_INTERIM + MAX_UNASKED:
            self._refuse("answers that no request asked for")

    def _refuse(self, what: str) -> None:
        """Close the connection at once; a request that waits gets the reason."""
        if isinstance(self.exception(), BoundExceeded):
            return  # more of the same read
        if self.transport is not None:
            self.transport.abort()
        self.set_exception(BoundExceeded(what))
        if self._payload is not None:
            self._payload.set_exception(BoundExceeded(what))
