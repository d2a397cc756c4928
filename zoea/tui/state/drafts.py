"""What was written and not sent, by recipient, and what was written before: both outlive the screen they stood on."""

from __future__ import annotations

from collections.abc import Sequence

HISTORY = 200


class Drafts:
    """The cockpit's one memory of everything its prompts hold."""

    def __init__(self) -> None:
        self._by_key: dict[str, str] = {}
        self.history: list[str] = []

    def of(self, key: str) -> str:
        """What was last written to a recipient and not sent; empty where nothing was."""
        return self._by_key.get(key, "")

    def keep(self, key: str, text: str) -> None:
        """Keep what stands there now; blanks alone are no draft."""
        if text.strip():
            self._by_key[key] = text
        else:
            self._by_key.pop(key, None)

    def note(self, text: str) -> None:
        """Something left its input, sent or cleared: it is the newest of the history."""
        if text.strip() and (not self.history or self.history[-1] != text):
            self.history = [*self.history, text][-HISTORY:]

    def remember(self, texts: Sequence[str]) -> None:
        """What was sent before, oldest first; what was written here since stays the newest."""
        before = [text for text in texts if text.strip() and text not in self.history]
        self.history = [*before, *self.history][-HISTORY:]
