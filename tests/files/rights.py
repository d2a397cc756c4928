"""Rights of files that hold for root too."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from contextlib import contextmanager

_VERSION = 0x20080522
_OVERRIDES = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""


@contextmanager
def checked_rights() -> Iterator[None]:
    """Take from this thread the capabilities by which root passes over rights.

    Programs that it starts have them.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    head = ctypes.create_string_buffer(struct.pack("Ii", _VERSION, 0))
    before = ctypes.create_string_buffer(24)
    assert libc.capget(head, before) == 0
    effective, *rest = struct.unpack("6I", before.raw[:24])
    after = ctypes.create_string_buffer(struct.pack("6I", effective & ~_OVERRIDES, *rest))
    assert libc.capset(head, after) == 0
    try:
        yield
    finally:
        assert libc.capset(head, before) == 0
