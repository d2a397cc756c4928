"""Decodes server-sent events and lines of JSON from bytes that are cut anywhere.

One network read gives all of its events at once, bad UTF-8 is replaced, and a last event without its blank line is
not lost. Source: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation.
"""

from __future__ import annotations

from codecs import getincrementaldecoder

_utf8 = getincrementaldecoder("utf-8")


class EventReader:
    """Decodes bytes into `(event, data)` pairs. Comments and empty events are dropped."""

    __slots__ = ("_data", "_event", "_lines")

    def __init__(self) -> None:
        self._lines = _LineSplitter()
        self._event = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[tuple[str, str]]:
        return self._decode(self._lines.feed(data))

    def end(self) -> list[tuple[str, str]]:
        """Return the rest when the connection ends: a last line, a last event."""
        return self._decode([*self._lines.end(), ""])

    def _decode(self, lines: list[str]) -> list[tuple[str, str]]:
        events = []
        for line in lines:
            if not line:
                if data := "\n".join(self._data):
                    events.append((self._event or "message", data))
                self._event = ""
                self._data.clear()
                continue
            name, _, value = line.partition(":")
            if name == "data":
                self._data.append(value.removeprefix(" "))
            elif name == "event":
                self._event = value.removeprefix(" ")
        return events


class LineReader:
    """Decodes bytes into whole lines of text, without blank ones (NDJSON)."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines = _LineSplitter()

    def feed(self, data: bytes) -> list[str]:
        return [line for line in self._lines.feed(data) if line.strip()]

    def end(self) -> list[str]:
        return [line for line in self._lines.end() if line.strip()]


class _LineSplitter:
    """Splits text at `\\n`, `\\r\\n` and `\\r`. A long line that comes in many pieces is joined once."""

    __slots__ = ("_pieces", "_skips_newline", "_text")

    def __init__(self) -> None:
        self._text = _utf8("replace")
        self._pieces: list[str] = []
        self._skips_newline = False

    def feed(self, data: bytes) -> list[str]:
        return self._split(self._text.decode(data))

    def end(self) -> list[str]:
        """Return the lines that are left, the last of which has no end."""
        lines = self._split(self._text.decode(b"", final=True))
        if self._pieces:
            lines.append("".join(self._pieces))
            self._pieces.clear()
        return lines

    def _split(self, text: str) -> list[str]:
        if not text:
            return []
        if self._skips_newline:  # the text before ended in \r, which has ended its line
            text = text.removeprefix("\n")
        self._skips_newline = text.endswith("\r")
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        *lines, rest = text.split("\n")
        if lines and self._pieces:
            lines[0] = "".join([*self._pieces, lines[0]])
            self._pieces.clear()
        if rest:
            self._pieces.append(rest)
        return lines
