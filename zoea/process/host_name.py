"""Names the machine on which this process runs."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

_ID_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_ID_DIGITS = 12


@cache
def describe_machine() -> str:
    """Return the host's name and the first digits of the machine's id, if any."""
    for name in _ID_FILES:
        try:
            digits = Path(name).read_text("ascii").strip()[:_ID_DIGITS]
        except (OSError, UnicodeDecodeError):
            continue
        if digits:
            return f"{platform.node()} {digits}"
    return platform.node()
