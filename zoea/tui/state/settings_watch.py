"""Notices changes of `config.toml`, of keys and of themes while the cockpit runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zoea.settings.key_stamp import KeyStamp
from zoea.settings.paths import USER_FILE
from zoea.settings.reload_mark import read_reload_mark
from zoea.tui.theme import themes

Stamp = tuple[object, ...]


class SettingsWatch:
    """Compares the files with their state when they were applied last.

    Args:
        config: The configuration directory.
        credentials: The file with keys, in the workspace's data directory; None where none is watched.
    """

    def __init__(self, config: Path, credentials: Path | None = None) -> None:
        self._config, self._credentials = config, credentials
        self._keys = KeyStamp(credentials) if credentials is not None else None
        self._applied = self._read()
        self._seen_mark = self._read_mark()
        self.has_changed = False

    def look_for_reload(self) -> bool:
        """Return whether the swarm read the settings since the last call and none changed after."""
        mark = self._read_mark()
        if mark == self._seen_mark:
            return False
        self._seen_mark = mark
        return self._newest_change() <= mark

    def look(self) -> bool:
        """Read the state of the files. True where they changed since the last call or `mark_applied`."""
        was, self.has_changed = self.has_changed, self._read() != self._applied
        return self.has_changed and not was

    def mark_applied(self) -> None:
        """Take the files as they are now as applied."""
        self._applied, self._seen_mark, self.has_changed = self._read(), self._read_mark(), False

    def mark_themes_applied(self) -> None:
        """Take the present themes as applied, and leave the other files as they were."""
        self._applied = (*self._applied[:-1], themes.read_file_stamps(self._config))

    @contextmanager
    def own_change(self) -> Iterator[None]:
        """Take what the cockpit writes in this context as applied, unless files changed before."""
        was_applied = self._read() == self._applied
        yield
        if was_applied:
            self.mark_applied()

    def _read_mark(self) -> int:
        return read_reload_mark(self._credentials.parent) if self._credentials is not None else 0

    def _newest_change(self) -> int:
        """Return when settings or keys changed last, in nanoseconds."""
        files = (self._config / USER_FILE, *([self._credentials] if self._credentials is not None else []))
        return max((file.stat().st_mtime_ns for file in files if file.is_file()), default=0)

    def _read(self) -> Stamp:
        keys = self._keys.read() if self._keys is not None else ""
        try:
            found = (self._config / USER_FILE).stat()
        except OSError:
            return (None, keys, themes.read_file_stamps(self._config))
        return (found.st_mtime_ns, found.st_size, keys, themes.read_file_stamps(self._config))
