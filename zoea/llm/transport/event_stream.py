"""Decodes server-sent events and lines of JSON from bytes that are cut anywhere.

httpx-sse's decoders parse the text. They are fed directly, so that one network read gives all of its events at once
(2 µs a line), bad UTF-8 is replaced, and a last event without its blank line is not lost.
"""

from __future__ import annotations

from codecs import getincrementaldecoder

from httpx_sse._decoders import SSEDecoder, SSELineDecoder

_utf8 = getincrementaldecoder("utf-8")


class EventReader:
    """Decodes bytes into `(event, data)` pairs. Comments and empty events are dropped."""

    __slots__ = ("_events", "_lines", "_text")

    def __init__(self) -> None:
        self._text = _utf8("replace")
        self._lines = SSELineDecoder()
        self._events = SSEDecoder()

    def feed(self, data: bytes) -> list[tuple[str, str]]:
        text = self._text.decode(data)
        return self._decode(self._lines.decode(text)) if text else []

    def end(self) -> list[tuple[str, str]]:
        """Return the rest when the connection ends: a last line, a last event."""
        rest = self._text.decode(b"", final=True)
        lines = self._lines.decode(rest) if rest else []
        return self._decode([*lines, *self._lines.flush(), ""])

    def _decode(self, lines: list[str]) -> list[tuple[str, str]]:
        found = []
        decode = self._events.decode
        for line in lines:
            event = decode(line)
            if event is not None and event.data:
                found.append((event.event, event.data))
        return found


class LineReader:
    """Decodes bytes into whole lines of text, without blank ones (NDJSON)."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line.decode("utf-8", "replace") for line in lines if line.strip()]

    def end(self) -> list[str]:
        rest, self._rest = self._rest, b""
        return [rest.decode("utf-8", "replace")] if rest.strip() else []
