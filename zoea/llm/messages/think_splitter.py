"""Separates `<think>` blocks of local models from the text that they stream.

A block opens at the start of the answer or of a line, may be cut anywhere by the stream, and may never be closed.
Models with the opening tag in their template stream only the closing one: all text before it is reasoning too.
"""

from __future__ import annotations

import re

_OPEN = re.compile(r"<(think|thinking)>")
_TAGS = ("<think>", "<thinking>", "</think>", "</thinking>")
_CLOSE = re.compile(r"</(?:think|thinking)>[ \t]*\n?")
_BITE = 4096
"""Characters that are searched at once, because every tag in them costs a copy of the rest."""


class ThinkSplitter:
    """Splits streamed text into `(text, reasoning)`; `orphan` corrects the whole text at the end."""

    __slots__ = ("_close", "_held", "_line_start", "_seen", "_trim")

    def __init__(self) -> None:
        self._close = ""
        self._held = ""
        self._line_start = True
        self._seen = False
        self._trim = False

    def feed(self, piece: str) -> tuple[str, str]:
        if not self._held and not self._close and not self._trim and "<" not in piece:
            self._note(piece)
            return piece, ""
        text: list[str] = []
        reasoning: list[str] = []
        for start in range(0, len(piece), _BITE):
            rest = self._held + piece[start : start + _BITE]
            self._held = ""
            while rest:
                rest = self._inside(rest, reasoning) if self._close else self._outside(rest, text)
        return "".join(text), "".join(reasoning)

    def end(self) -> tuple[str, str]:
        """Return the text that was held back because it could have become a tag."""
        rest, self._held = self._held, ""
        return ("", rest) if self._close else (rest, "")

    def orphan(self, text: str) -> tuple[str, str]:
        """Split the final text at a closing tag that was never opened: `(text, reasoning)`."""
        if self._seen or "</think" not in text:
            return text, ""
        for tag in _CLOSE.finditer(text):
            start = tag.start()
            while start and text[start - 1].isspace():
                start -= 1
            if not start or "\n" in text[start : tag.start()]:
                return text[tag.end() :].lstrip("\n"), text[:start].strip()
        return text, ""

    def _inside(self, rest: str, reasoning: list[str]) -> str:
        before, tag, after = rest.partition(self._close)
        if tag:
            reasoning.append(before)
            self._close = ""
            self._line_start = True
            self._trim = True
            return after
        keep = _tail(rest, (self._close,))
        reasoning.append(rest[: len(rest) - keep])
        self._held = rest[len(rest) - keep :] if keep else ""
        return ""

    def _outside(self, rest: str, text: list[str]) -> str:
        if self._trim:
            rest = rest.lstrip()
            if not rest:
                return ""
            self._trim = False
        at = rest.find("<")
        if at < 0:
            text.append(rest)
            self._note(rest)
            return ""
        self._note(rest[:at])
        text.append(rest[:at])
        rest = rest[at:]
        if self._line_start:
            match = _OPEN.match(rest)
            if match:
                self._close = f"</{match.group(1)}>"
                self._seen = True
                return rest[match.end() :]
            if any(tag.startswith(rest) for tag in _TAGS):
                self._held = rest
                return ""
        text.append("<")
        self._line_start = False
        return rest[1:]

    def _note(self, text: str) -> None:
        """Remember whether the next text begins a line."""
        stripped = text.rstrip(" \t")
        if stripped:
            self._line_start = stripped[-1] == "\n"


def _tail(text: str, tags: tuple[str, ...]) -> int:
    """Count the last characters that may be the beginning of one of the tags."""
    for size in range(min(len(text), max(map(len, tags)) - 1), 0, -1):
        if any(tag.startswith(text[-size:]) for tag in tags):
            return size
    return 0
