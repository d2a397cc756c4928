"""Tells Hypothesis which characters UTF-8 encodes. Trying each takes two seconds of the first run in a checkout."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress

from hypothesis.internal import charmap

ENCODABLE = ((0, 0xD7FF), (0xE000, 0x10FFFF))
"""The first and the last characters of each range: all but the surrogates."""


def write_encodable() -> None:
    """Write the ranges where Hypothesis keeps what it found out, unless it has."""
    file = charmap.charmap_file("codec-v2-utf-8")
    with suppress(OSError):
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(gzip.compress(json.dumps((ENCODABLE, ())).encode(), mtime=0))
