"""Unsent drafts by recipient and the history of sent messages; both outlive their screens, drafts also the cockpit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zoea.runtime.unsent_texts import change_unsent, read_unsent

HISTORY = 200


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
        if self._file is not None:
            self._by_key = read_unsent(self._file) | self._by_key

    def store(self) -> None:
        """Write the changed drafts to the file, which other cockpits write too. Raises SettingsError."""
        if self._file is not None and self._changed:
            change_unsent(self._file, lambda kept: kept | {key: self._by_key[key] for key in self._changed})

    def note(self, text: str) -> None:
        """Append a sent or cleared text to the history."""
        if text.strip() and (not self.history or self.history[-1] != text):
            self.history = [*self.history, text][-HISTORY:]

    def remember(self, texts: Sequence[str]) -> None:
        """Put texts sent in earlier runs before the history of this one, oldest first."""
        before = [text for text in texts if text.strip() and text not in self.history]
        self.history = [*before, *self.history][-HISTORY:]
