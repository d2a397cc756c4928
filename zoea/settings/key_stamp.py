"""Tells whether a person's keys in the credentials file changed, without holding their values."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path

from zoea.settings.small_file import read_small_text

ACCOUNTS, SECRETS = "account/", "secret/"
"""Prefixes of entries that a swarm writes itself: accounts of myses on upstreams, and secrets in arguments."""


class KeyStamp:
    """The state of a credentials file, read again only where its time or size changed.

    Args:
        file: The workspace's `credentials.toml`; it may be missing.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen: tuple[int, int] | None = None
        self._digest = ""

    def read(self) -> str:
        """Return a digest of the keys; the same text where none changed. Empty for a missing or invalid file."""
        try:
            stat = self._file.stat()
            seen = (stat.st_mtime_ns, stat.st_size)
            if seen != self._seen:
                self._seen, self._digest = seen, _digest(self._file)
        except (OSError, ValueError, AttributeError, RecursionError):
            self._seen, self._digest = None, ""
        return self._digest


def _digest(file: Path) -> str:
    """Return the digest of a file's keys. Raises OSError, ValueError."""
    stored = tomllib.loads(read_small_text(file)).get("credentials", {})
    own = {name: str(value) for name, value in stored.items() if not name.startswith((ACCOUNTS, SECRETS))}
    return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest() if own else ""
