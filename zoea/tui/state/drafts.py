"""Unsent drafts by recipient and the history of sent messages; both outlive their screens, drafts also the cockpit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from zoea.settings.private_file import lock_file, write_private
from zoea.settings.small_file import read_small_text
from zoea.text.control_characters import clean

HISTORY = 200
MOST_BYTES = 64_000_000
"""Bytes of a stored file that are read at most; a draft has 4 million characters at most."""


class Drafts:
    """The drafts and the history of all prompts.

    Args:
        file: Keeps the drafts between two cockpits; without it they end with this one.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._by_key: dict[str, str] = {}
        self._changed: set[str] = set()
        self.history: list[str] = []

    def of(self, key: str) -> str:
        """Return the draft for a recipient; empty where there is none."""
        return self._by_key.get(key, "")

    def keep(self, key: str, text: str) -> None:
        """Store a draft; blank text removes it."""
        text = text if text.strip() else ""
        if text != self.of(key):
            self._changed.add(key)
            self._by_key[key] = text

    def load(self) -> None:
        """Read the drafts of earlier cockpits. A damaged file has none."""
        self._by_key = self._read() | self._by_key

    def store(self) -> None:
        """Write what was changed here, beside the drafts of other cockpits. Raises SettingsError."""
        if self._file is None or not self._changed:
            return
        with lock_file(self._file):
            kept = self._read() | {key: self._by_key[key] for key in self._changed}
            unsent = {key: clean(text) for key, text in kept.items() if text}
            write_private(self._file, json.dumps(unsent, ensure_ascii=False))

    def _read(self) -> dict[str, str]:
        try:
            found = json.loads(read_small_text(self._file, MOST_BYTES)) if self._file is not None else {}
        except (OSError, ValueError, RecursionError):
            return {}
        texts = found.items() if isinstance(found, dict) else ()
        return {key: text for key, text in texts if isinstance(text, str)}

    def note(self, text: str) -> None:
        """Append a sent or cleared text to the history."""
        if text.strip() and (not self.history or self.history[-1] != text):
            self.history = [*self.history, text][-HISTORY:]

    def remember(self, texts: Sequence[str]) -> None:
        """Put texts sent in earlier runs before the history of this one, oldest first."""
        before = [text for text in texts if text.strip() and text not in self.history]
        self.history = [*before, *self.history][-HISTORY:]
