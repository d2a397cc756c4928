"""Notices changes of `config.toml`, of keys and of themes while the cockpit runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zoea.settings.key_stamp import KeyStamp
from zoea.settings.paths import USER_FILE
from zoea.tui.theme import themes

Stamp = tuple[object, ...]


class SettingsWatch:
    """Compares the files with their state when they were applied last.

    Args:
        config: The configuration directory.
        credentials: The file with keys; None where none is watched.
    """

    def __init__(self, config: Path, credentials: Path | None = None) -> None:
        self._config = config
        self._keys = KeyStamp(credentials) if credentials is not None else None
        self._applied = self._read()
        self.has_changed = False

    def look(self) -> bool:
        """Read the state of the files. True where they changed since the last call or `mark_applied`."""
        was, self.has_changed = self.has_changed, self._read() != self._applied
        return self.has_changed and not was

    def mark_applied(self) -> None:
        """Take the files as they are now as applied."""
        self._applied, self.has_changed = self._read(), False

    @contextmanager
    def own_change(self) -> Iterator[None]:
        """Take what the cockpit itself writes in this context as applied, except where the files had changed before."""
        was_applied = self._read() == self._applied
        yield
        if was_applied:
            self.mark_applied()

    def _read(self) -> Stamp:
        keys = self._keys.read() if self._keys is not None else ""
        try:
            found = (self._config / USER_FILE).stat()
        except OSError:
            return (None, keys, themes.read_file_stamps(self._config))
        return (found.st_mtime_ns, found.st_size, keys, themes.read_file_stamps(self._config))
