"""Unsent drafts by recipient and the history of sent messages; both outlive their screens."""

from __future__ import annotations

from collections.abc import Sequence

HISTORY = 200


class Drafts:
    """The drafts and the history of all prompts."""

    def __init__(self) -> None:
        self._by_key: dict[str, str] = {}
        self.history: list[str] = []

    def of(self, key: str) -> str:
        """Return the draft for a recipient; empty where there is none."""
        return self._by_key.get(key, "")

    def keep(self, key: str, text: str) -> None:
        """Store a draft; blank text removes it."""
        if text.strip():
            self._by_key[key] = text
        else:
            self._by_key.pop(key, None)

    def note(self, text: str) -> None:
        """Append a sent or cleared text to the history."""
        if text.strip() and (not self.history or self.history[-1] != text):
            self.history = [*self.history, text][-HISTORY:]

    def remember(self, texts: Sequence[str]) -> None:
        """Put texts sent in earlier runs before the history of this one, oldest first."""
        before = [text for text in texts if text.strip() and text not in self.history]
        self.history = [*before, *self.history][-HISTORY:]
