"""The log file `zoea.log`: rotating, readable by its owner alone, without secrets.

Must be configured before mcp is imported, because mcp's server would write to the screen.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path

from zoea.text import redact

MAX_BYTES = 5_000_000
BACKUPS = 3
_CHATTY = ("httpx", "httpcore", "mcp", "asyncio", "uvicorn")
HIDDEN = "[REDACTED_SECRET]"


class RedactingFormatter(logging.Formatter):
    """Formats records with known and likely secrets masked."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._secrets = sorted((secret for secret in secrets if len(secret) >= 6), key=len, reverse=True)

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return redact.redact_secrets(text)


@contextmanager
def logging_to(path: Path, level: str = "info", *, secrets: Iterable[str] = ()) -> Iterator[None]:
    """Send all logging of this process to `path` (mode 0600) while the block runs."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
    # A path in a message may hold bytes that are not UTF-8.
    handler = RotatingFileHandler(
        path, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8", errors="backslashreplace"
    )
    handler.setFormatter(RedactingFormatter(secrets))
    root = logging.getLogger()
    before = (root.handlers[:], root.level, logging.raiseExceptions)
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.raiseExceptions = False
    for chatty in _CHATTY:
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
    try:
        yield
    finally:
        root.handlers[:], logging.raiseExceptions = before[0], before[2]
        root.setLevel(before[1])
        with suppress(OSError):  # a full disk may refuse the last lines
            handler.close()
