"""Large texts in an input stand there as one short mark: a text area lays a megabyte out for seconds.

What is marked is kept beside the text and put back when it is sent. Pure.
"""

from __future__ import annotations

from zoea.tui import figures

FOLD_OVER = 4_000
"""Characters from which on a text is folded."""


class Folds:
    """The folded texts of one input. A mark that a person edits is plain text from then on."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """The text itself where it is short, else its mark."""
        if len(text) <= FOLD_OVER:
            return text
        for mark, kept in self._kept.items():
            if kept == text:
                return mark
        lines = text.count("\n") + 1
        mark = f"‹text {len(self._kept) + 1}: {figures.size(len(text))}, {lines} line{'s' if lines > 1 else ''}›"
        self._kept[mark] = text
        return mark

    def unfold(self, text: str) -> str:
        """The text with every mark in it replaced by what it stands for."""
        for mark, kept in self._kept.items():
            if mark in text:
                text = text.replace(mark, kept)
        return text
