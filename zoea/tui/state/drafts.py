"""Unsent drafts by recipient and the history of sent messages. Both outlive their screens, drafts also the cockpit."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

from zoea.model.errors import SettingsError
from zoea.runtime.unsent_texts import change_unsent, name_identity, name_limits, read_unsent
from zoea.text.control_characters import clean, reveal

HISTORY = 200
NEW_MYSIS, LAST_CHOICES = "new mysis", "choices for a new mysis"
"""Keys of the task of a new mysis, and of what was chosen for the last one, as JSON."""


def message_key(identity: str, *parts: str) -> str:
    """Return the idempotency key of a draft with this identity and these parts."""
    # Parts as they are read from the file again.
    shown = ["\n".join(reveal(clean(part)).splitlines()) for part in parts]
    return f"draft-{identity}-{hashlib.blake2s(json.dumps(shown).encode(), digest_size=8).hexdigest()}"


class Drafts:
    """The drafts and the history of all prompts.

    Args:
        file: Keeps the drafts between two cockpits; without it they end with this one.
        on_change: Called for each change that `store` has to write.
    """

    def __init__(self, file: Path | None = None, on_change: Callable[[], None] = lambda: None) -> None:
        self._file = file
        self._on_change = on_change
        self._storing = Lock()
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
            self._by_key[key] = text
            self._changed.add(key)  # after the text, because `store` may run in a thread meanwhile
            if self._file is not None:
                self._on_change()

    def limits_of(self, key: str) -> str:
        """Return the limits of the draft for a recipient."""
        return self.of(name_limits(key))

    def keep_message(self, key: str, text: str, limits: str) -> None:
        """Store a draft with its limits. It keeps one identity until it is sent or cleared."""
        self.keep(key, text)
        self.keep(name_limits(key), limits)
        identity = self.of(name_identity(key)) or secrets.token_hex(8)
        self.keep(name_identity(key), identity if self.of(key) else "")

    def idempotency_key(self, key: str, *parts: str) -> str:
        """Return a key for the parts of a draft. It is equal in all cockpits until the draft is sent.

        Args:
            parts: What makes it another message: its text, its limits, those who get it.
        """
        return message_key(self.of(name_identity(key)), *parts)

    def end(self, key: str, sent: str) -> None:
        """Remove a draft that was sent. What was typed since stays, as the draft of another message."""
        kept, limits = self.of(key), self.limits_of(key)
        self.keep_message(key, "", "")
        if kept.strip() != sent.strip():
            self.keep_message(key, kept, limits)

    def load(self) -> None:
        """Read the drafts of earlier cockpits, as a terminal can show them. A damaged file has none.

        Raises SettingsError.
        """
        if self._file is not None:
            read = {key: reveal(text) for key, text in read_unsent(self._file).items()}
            self._by_key = read | self._by_key

    def store(self) -> None:
        """Write the changed drafts to the file, which other cockpits write too. Raises SettingsError.

        It may run in a thread; what it could not write is written the next time.
        """
        if self._file is None:
            return
        with self._storing:
            changed: dict[str, str] = {}
            while self._changed:
                key = self._changed.pop()
                changed[key] = self._by_key[key]
            if not changed:
                return
            try:
                change_unsent(self._file, lambda kept: kept | changed)
            except SettingsError:
                self._changed.update(changed)
                raise

    def note(self, text: str) -> None:
        """Append a sent or cleared text to the history."""
        if text.strip() and (not self.history or self.history[-1] != text):
            self.history = [*self.history, text][-HISTORY:]

    def remember(self, texts: Sequence[str]) -> None:
        """Put texts sent in earlier runs before the history of this one, oldest first."""
        before = [reveal(text) for text in texts if text.strip() and text not in self.history]
        self.history = [*before, *self.history][-HISTORY:]
