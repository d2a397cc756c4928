"""Bodies that come compressed although nobody asked for it.

Some proxies do so. A compressed body may be a thousand times as large as what comes
over the wire, so that it is unpacked in pieces of bounded size, as they are read.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator

import httpx

PIECE = 256 * 1024
_EITHER = zlib.MAX_WBITS | 32
"""gzip or zlib, whichever it begins as."""


def inflated(body: AsyncIterator[bytes], encoding: str) -> AsyncIterator[bytes]:
    """The body's bytes as they were before they were packed; `encoding` is the header's value."""
    match encoding.strip().lower():
        case "" | "identity":
            return body
        case "gzip" | "x-gzip" | "deflate":
            return _unpacked(body)
        case other:
            return _Refused(other[:40])


class _Refused(AsyncIterator[bytes]):
    """A body that nobody can read: says so when it is read."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding

    async def __anext__(self) -> bytes:
        raise httpx.DecodingError(f"it is packed as {self._encoding!r}, which was not asked for")


async def _unpacked(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    unpacking = zlib.decompressobj(_EITHER)
    async for packed in body:
        rest = packed
        while rest and not unpacking.eof:
            try:
                piece = unpacking.decompress(rest, PIECE)
            except zlib.error as error:
                raise httpx.DecodingError(f"it is not packed as its header says: {error}") from error
            rest = unpacking.unconsumed_tail
            if piece:
                yield piece
            if rest:  # the loop's others come first: a small piece may hold seconds of unpacking
                await asyncio.sleep(0)
