"""Decodes server-sent events and lines of JSON from bytes that are cut anywhere.

One network read gives all of its events at once, bad UTF-8 is replaced, a byte order mark is skipped, and a last event
without its blank line is not lost. Lines that are no fields of an event are kept too: servers send whole answers,
errors and bare text under the type of a stream.
Source: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from typing import Any

from zoea.llm.transport.json_safety import parse

MAX_WORDS = 4_000
"""Characters that are kept of what is no JSON."""
_utf8 = getincrementaldecoder("utf-8-sig")
_FIELDS = frozenset({"id", "retry"})
_JOINED = re.compile(r"\n|data:\s?")
"""Where two events stand in one: a server wrote the second into the first, or left out the blank line between them."""


class EventReader:
    """Decodes bytes into `(event, data)` pairs. Comments and empty events are dropped.

    Lines without a field's name are events named "" of their own.
    """

    __slots__ = ("_data", "_event", "_lines", "_strays")

    def __init__(self) -> None:
        self._lines = _LineSplitter()
        self._event = ""
        self._data: list[str] = []
        self._strays: list[str] = []

    def feed(self, data: bytes) -> list[tuple[str, str]]:
        return self._decode(self._lines.feed(data))

    def end(self) -> list[tuple[str, str]]:
        """Return the rest when the connection ends: a last line, a last event."""
        return self._decode([*self._lines.end(), ""])

    def _decode(self, lines: list[str]) -> list[tuple[str, str]]:
        events = []
        for line in lines:
            if not line:
                data = "\n".join(self._data)
                if data or self._event == "error":
                    events.append((self._event or "message", data))
                if self._strays:
                    events.append(("", "\n".join(self._strays)))
                    self._strays.clear()
                self._event = ""
                self._data.clear()
                continue
            name, _, value = line.partition(":")
            if name == "data":
                self._data.append(value.removeprefix(" "))
            elif name == "event":
                self._event = value.strip()
            elif name == "error":  # as older llama.cpp servers name the field
                events.append(("error", value.strip()))
            elif line[0] == "{" and line[-1] == "}":
                events.append(("", line))
            elif name and name not in _FIELDS:
                self._strays.append(line)
        return events


class PayloadReader:
    """Decodes bytes into the JSON payloads of a stream, however they are framed.

    Attributes:
        is_done: Whether `[DONE]` came.
        words: What came that is no JSON, as the text of an error; at most `MAX_WORDS` characters.
    """

    __slots__ = ("_events", "is_done", "words")

    def __init__(self) -> None:
        self._events = EventReader()
        self.is_done = False
        self.words = ""

    def feed(self, data: bytes) -> list[Any]:
        return self._payloads(self._events.feed(data))

    def end(self) -> list[Any]:
        return self._payloads(self._events.end())

    def _payloads(self, events: list[tuple[str, str]]) -> list[Any]:
        payloads: list[Any] = []
        for name, data in events:
            try:
                payload = parse(data)
            except ValueError:
                self._take_text(name, data, payloads)
                continue
            is_bare = name == "error" and not (isinstance(payload, dict) and payload.get("error"))
            payloads.append({"error": payload} if is_bare else payload)
        return payloads

    def _take_text(self, name: str, data: str, payloads: list[Any]) -> None:
        """Take an event that is no JSON: the end, an error in plain words, several events in one, or noise."""
        text = data.strip()
        if text == "[DONE]":
            self.is_done = True
        elif name == "error":
            payloads.append({"error": text or "no reason given"})
        elif text[:1] in ("{", "["):
            payloads += [one for part in _JOINED.split(text) if (one := _object(part)) is not None]
        elif len(self.words) < MAX_WORDS:
            self.words = f"{self.words}\n{text}".strip()[:MAX_WORDS]


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = parse(text.strip())
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


class LineReader:
    """Decodes bytes into whole lines of text, without blank ones (NDJSON) and without the frame of an event."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines = _LineSplitter()

    def feed(self, data: bytes) -> list[str]:
        return _bare(self._lines.feed(data))

    def end(self) -> list[str]:
        return _bare(self._lines.end())


def _bare(lines: list[str]) -> list[str]:
    return [bare for line in lines if (bare := line.removeprefix("data:").strip())]


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
