"""The log file `zoea.log`: rotating, readable by its owner alone, without secrets or floods.

Must be configured before mcp is imported, because mcp's server would write to the screen.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from zoea.model.errors import StoreError
from zoea.process.clock import read_uptime_s
from zoea.settings.paths import make_private_folder
from zoea.settings.private_file import READ_ONLY, describe_failure, open_private
from zoea.text import redact
from zoea.text.control_characters import reveal

MAX_BYTES = 5_000_000
BACKUPS = 3
WINDOW_S = 60.0
"""Seconds in which a repeated line is counted instead of written again."""
LINES_OF_A_PLACE = 100
"""Different lines that one place of the code may write in a window. Debug lines are neither counted nor limited."""
MAX_COUNTED = 1_000
_SHOWN_CHARS = 200
_CHATTY = ("httpx", "httpcore", "mcp", "asyncio", "uvicorn")
HIDDEN = "[REDACTED_SECRET]"


class RedactingFormatter(logging.Formatter):
    """Formats records with known and likely secrets masked, and hidden characters as escapes.

    Only the first line of a record begins at the margin, so that no text of a server looks like a record.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._secrets: list[str] = []
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        """Mask further secrets."""
        all_secrets = {*self._secrets, *(secret for secret in secrets if len(secret) >= 6)}
        self._secrets = sorted(all_secrets, key=len, reverse=True)

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return reveal(redact.redact_secrets(text)).replace("\n", "\n  ")


class _Count:
    """Lines of one text or place in a window: their number, and the last unwritten one."""

    __slots__ = ("begun", "dropped", "last", "written")

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.written = 0
        self.dropped = 0
        self.last = ""


class RepeatFilter(logging.Filter):
    """Passes a line once in `WINDOW_S`, and counts its repetitions.

    A place of the code that writes many different lines is limited too. `due` returns the summaries
    of what was counted.
    """

    def __init__(self, clock: Callable[[], float] = read_uptime_s) -> None:
        super().__init__()
        self._clock = clock
        self._counts: dict[tuple[object, ...], _Count] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return False for a line that is counted instead of written."""
        if record.levelno <= logging.DEBUG:
            return True
        place = (record.name, record.pathname, record.lineno)
        try:
            text = record.getMessage()
        except (TypeError, ValueError):  # arguments that do not fit: the handler reports it
            return True
        key = (*place, text)
        if key not in self._counts and not self._passes(place, text, LINES_OF_A_PLACE):
            return False
        return self._passes(key, text, 1)

    def due(self, *, everything: bool = False) -> list[str]:
        """Forget the windows that have ended, and return a summary for each that dropped lines."""
        now, said = self._clock(), []
        while self._counts:
            key, count = next(iter(self._counts.items()))  # the oldest
            if not everything and now - count.begun < WINDOW_S and len(self._counts) <= MAX_COUNTED:
                break
            del self._counts[key]
            if count.dropped:
                kind = "this line" if len(key) > 3 else "lines like this"
                said.append(f"{count.dropped:,} more of {kind} in {now - count.begun:.0f} s: {count.last}")
        return said

    def _passes(self, key: tuple[object, ...], text: str, most: int) -> bool:
        count = self._counts.get(key)
        if count is None:
            count = self._counts[key] = _Count(self._clock())
        if count.written < most:
            count.written += 1
            return True
        count.dropped += 1
        count.last = text.partition("\n")[0][:_SHOWN_CHARS]
        return False


class PrivateLogHandler(RotatingFileHandler):
    """Writes a rotating file of mode 0600, with repeated lines counted."""

    def __init__(self, path: Path, repeats: RepeatFilter) -> None:
        # A path in a message may hold bytes that are not UTF-8.
        for number in range(1, BACKUPS + 1):
            with suppress(OSError):  # none is there; one that was copied here may be open to others
                os.close(open_private(f"{path}.{number}", os.O_RDONLY))
        super().__init__(path, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8", errors="backslashreplace")
        self._repeats = repeats
        self.addFilter(repeats)

    def _open(self) -> TextIOWrapper:  # documented by `logging.FileHandler` as its way to open the file
        descriptor = open_private(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        return TextIOWrapper(open(descriptor, "ab"), encoding=self.encoding, errors=self.errors)

    def handle(self, record: logging.LogRecord) -> bool:
        """Write a record if it is no repetition, after the summaries that are due."""
        self.acquire()
        try:
            self._write_summaries(everything=False)
            return bool(super().handle(record))
        finally:
            self.release()

    def close(self) -> None:
        """Write the counts so far and close the file."""
        self._write_summaries(everything=True)
        super().close()

    def _write_summaries(self, *, everything: bool) -> None:
        for text in self._repeats.due(everything=everything):
            self.emit(logging.LogRecord(__name__, logging.WARNING, "", 0, text, None, None))


def _open_handler(path: Path) -> logging.Handler:
    repeats = RepeatFilter()
    try:
        make_private_folder(path.parent)
        return PrivateLogHandler(path, repeats)
    except OSError as problem:
        if problem.errno not in READ_ONLY:
            raise StoreError(
                f"{path} cannot be written: {describe_failure(problem)}",
                hint=f"Check the free space and the permissions of {path.parent}.",
            ) from problem
    handler = logging.StreamHandler()
    handler.addFilter(repeats)
    return handler


def mask_in_log(secrets: Iterable[str]) -> None:
    """Mask further secrets in the log that `logging_to` writes."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, RedactingFormatter):
            handler.formatter.add(secrets)


@contextmanager
def logging_to(path: Path, level: str, *, secrets: Iterable[str] = ()) -> Iterator[None]:
    """Send all logging of this process to `path` (mode 0600) while the block runs.

    In a read-only directory it goes to stderr.

    Raises:
        StoreError: The file cannot be written for another reason.
    """
    handler = _open_handler(path)
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


@contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Send a front's warnings and errors to descriptor 2. Another process writes the log."""
    with os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace", buffering=1) as stream:
        handler = logging.StreamHandler(stream)
        handler.setFormatter(RedactingFormatter())
        handler.setLevel(logging.WARNING)
        root = logging.getLogger()
        root.addHandler(handler)
        try:
            yield
        finally:
            root.removeHandler(handler)
