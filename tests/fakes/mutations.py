"""Damages bytes as broken and hostile senders do, from a seed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

COUNT = 20_000 if os.environ.get("ZOEA_SOAK") else 200
"""Mutations of one test."""
_ODD = (
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\n", b"\r\n\r\n", b"{", b"}", b"[" * 300, b'"', b"\\"),
    *(b"null", b"-1", b"1e999", b"NaN", b"true", b"data: ", b"event: error\n", b"[DONE]", b"\xef\xbb\xbf"),
)


def mutations(data: bytes, *, seed: int, count: int = COUNT) -> Iterator[bytes]:
    """Yield damaged copies: bytes changed, cut, doubled, moved, and odd ones put in."""
    chance = random.Random(seed)
    for _ in range(count):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(damaged) + 1)
            end = min(len(damaged), at + chance.randint(1, 40))
            match chance.randrange(6):
                case 0 if at < len(damaged):
                    damaged[at] = chance.randrange(256)
                case 1:
                    del damaged[at:end]
                case 2:
                    damaged[at:at] = damaged[at:end]
                case 3:
                    damaged[at:at] = chance.choice(_ODD)
                case 4:
                    damaged[at:end] = chance.choice(_ODD)
                case _:
                    moved = damaged[at:end]
                    del damaged[at:end]
                    to = chance.randrange(len(damaged) + 1)
                    damaged[to:to] = moved
        yield bytes(damaged)
