"""Masks known secrets in a text that comes in pieces. Pure."""

from __future__ import annotations

from collections.abc import Mapping


class StreamMask:
    """Masks secrets in the pieces of one text, and holds back what may begin one.

    Args:
        forms: The texts that hold each secret, by its number; may grow while the text comes.
    """

    def __init__(self, forms: Mapping[int, tuple[str, ...]]) -> None:
        self._forms = forms
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return what may be shown now."""
        if not self._forms:
            return piece
        text, shown = self._held + piece, []
        while True:
            begins = self._find_begin(text)
            at, length, number = self._find_whole(text)
            if not length or at >= begins:
                break
            shown += [text[:at], f"‹secret:{number}›"]
            text = text[at + length :]
        self._held = text[begins:]
        return "".join([*shown, text[:begins]])

    def _find_whole(self, text: str) -> tuple[int, int, int]:
        """Return place, length and number of the first secret, the longest of those that begin there."""
        found = [
            (at, -len(form), number)
            for number, forms in self._forms.items()
            for form in forms
            if (at := text.find(form)) >= 0
        ]
        at, length, number = min(found, default=(len(text), 0, 0))
        return at, -length, number

    def _find_begin(self, text: str) -> int:
        """Return where a secret may begin that the next piece continues, or the text's length."""
        known = [form for forms in self._forms.values() for form in forms]
        longest = max(map(len, known), default=0)
        for start in range(max(0, len(text) - longest + 1), len(text)):
            rest = text[start:]
            if any(len(form) > len(rest) and form.startswith(rest) for form in known):
                return start
        return len(text)
