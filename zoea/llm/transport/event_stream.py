"""Decodes server-sent events and lines of JSON from bytes that are cut anywhere.

One network read gives all of its events at once, bad UTF-8 is replaced, a byte order mark is skipped, and a last event
without its blank line is not lost. Lines that are no fields of an event are kept too: servers send whole answers,
errors and bare text under the type of a stream.
Source: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from zoea.llm.transport.answer_bounds import AnswerBounds
from zoea.llm.transport.json_safety import parse
from zoea.model.request import Delta, ReadProgress
from zoea.text.large_json import LARGE_CHARS

_NEWLINE = re.compile(rb"[\r\n]")
MAX_WORDS = 4_000
"""Characters that are kept of what is no JSON."""
FEED_BYTES = 32 * 1024
"""Bytes that are decoded at once: some 400 events."""
_DONE = "[DONE]"
_FIELDS = frozenset({"id", "retry"})
_JOINED = re.compile(r"\n|data:\s?")
"""Where two events stand in one: a server wrote the second into the first, or left out the blank line between them."""


class EventReader:
    """Decodes bytes into `(event, data)` pairs. Comments and empty events are dropped.

    Lines without a field's name are events named "" of their own.
    """

    __slots__ = ("_bounds", "_data", "_event", "_lines", "_strays")

    def __init__(self, bounds: AnswerBounds) -> None:
        self._bounds = bounds
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
        lines.reverse()
        while lines:
            line = lines.pop()  # so that a long line is not in memory twice for longer than it takes to copy
            if not line:
                self._bounds.end_event()
                data = "\n".join(self._data)
                if data or self._event == "error":
                    events.append((self._event or "message", data))
                if self._strays:
                    events.append(("", "\n".join(self._strays)))
                    self._strays.clear()
                self._event = ""
                self._data.clear()
                continue
            if line.startswith("data:"):
                value = line[6 if line[5:6] == " " else 5 :]  # one copy: it may be of many megabytes
                self._bounds.add_line(value)
                self._data.append(value)
                continue
            name, _, value = line.partition(":")
            if name == "data":
                self._data.append("")
            elif name == "event":
                self._event = value.strip()
            elif name == "error":  # as older llama.cpp servers name the field
                events.append(("error", value.strip()))
            elif line[0] == "{" and line[-1] == "}":
                events.append(("", line))
            elif name and name not in _FIELDS:
                self._bounds.add_line(line)
                self._strays.append(line)
        return events


class PayloadReader:
    """Decodes bytes into the JSON payloads of a stream, however they are framed.

    Attributes:
        is_done: Whether `[DONE]` came.
        words: What came that is no JSON, as the text of an error; at most `MAX_WORDS` characters.
    """

    __slots__ = ("_events", "is_done", "words")

    def __init__(self, bounds: AnswerBounds) -> None:
        self._events = EventReader(bounds)
        self.is_done = False
        self.words = ""

    def feed(self, data: bytes) -> Iterator[Any]:
        """Decode bytes. Yield each payload when the one before was used, so that few are kept at once."""
        return self._payloads(self._events.feed(data))

    def end(self) -> Iterator[Any]:
        return self._payloads(self._events.end())

    def _payloads(self, events: list[tuple[str, str]]) -> Iterator[Any]:
        for name, data in events:
            if data == _DONE:
                self.is_done = True
                continue
            try:
                payload = parse(data)
            except ValueError:
                yield from self._take_text(name, data)
                continue
            is_bare = name == "error" and not (isinstance(payload, dict) and payload.get("error"))
            yield {"error": payload} if is_bare else payload

    def _take_text(self, name: str, data: str) -> Iterator[Any]:
        """Take an event that is no JSON: the end, an error in plain words, several events in one, or noise."""
        text = data.strip()
        if text == _DONE:
            self.is_done = True
        elif name == "error":
            yield {"error": text or "no reason given"}
        elif text[:1] in ("{", "["):
            start = 0
            while start <= len(text):
                joint = _JOINED.search(text, start)
                end, after = joint.span() if joint else (len(text), len(text) + 1)
                if (one := _object(text[start:end])) is not None:
                    yield one
                start = after
        elif len(self.words) < MAX_WORDS:
            self.words = f"{self.words}\n{text}".strip()[:MAX_WORDS]


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = parse(text.strip())
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


class PayloadDecoder:
    """The common part of decoders of events that are JSON values. Subclasses define `_take`."""

    def __init__(self, provider: str, model: str, secrets: tuple[str, ...]) -> None:
        self._provider = provider
        self._model = model
        self._secrets = secrets
        self._bounds = AnswerBounds(provider)
        self._reader = PayloadReader(self._bounds)

    @property
    def words(self) -> str:
        return self._reader.words

    def feed(self, data: bytes) -> Delta | ReadProgress | None:
        return self._take(self._reader.feed(data))

    def end(self) -> Delta | None:
        return self._take(self._reader.end())

    def _take(self, payloads: Iterable[Any]) -> Delta | None:
        raise NotImplementedError


class LineReader:
    """Decodes bytes into lines of text. It drops blank ones (NDJSON) and the frame of an event."""

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
    """Splits text at `\\n`, `\\r\\n` and `\\r`. The bytes of a line without its end are kept as they are."""

    __slots__ = ("_has_begun", "_pending", "_skips_newline")

    def __init__(self) -> None:
        self._pending = bytearray()
        self._has_begun = False
        self._skips_newline = False

    def feed(self, data: bytes) -> list[str]:
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not end:
            self._pending += data
            return []
        first = _NEWLINE.search(data)
        if len(self._pending) > LARGE_CHARS and first is not None and first.end() < end:
            # A long line is ended alone: as one of several it would be copied.
            return self.feed(data[: first.end()]) + self.feed(data[first.end() :])
        lines = self._split(data[:end])
        self._pending += data[end:]
        return lines

    def end(self) -> list[str]:
        """Return the line that is left, which has no end."""
        return [line for line in self._split(b"") if line] if self._pending else []

    def _split(self, data: bytes) -> list[str]:
        """Return the lines that these bytes end. No character is cut, because they come up to the end of a line."""
        whole, self._pending = self._pending, bytearray()
        whole += data
        is_rest = self._skips_newline and whole.startswith(b"\n")  # of \r\n, whose \r has ended the line before
        self._skips_newline = whole.endswith(b"\r")
        if is_rest:
            del whole[0]
            if not whole:
                return []
        for newline in (b"\n", b"\r"):
            if whole.endswith(newline):
                del whole[-1]
        text = whole.decode("utf-8", "replace")
        if not self._has_begun:
            self._has_begun = True
            text = text.removeprefix("\ufeff")
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        return text.split("\n")


def cut_body(body: bytes) -> Iterator[bytes]:
    """Yield a whole body in pieces of bounded size. Each line of a piece becomes a text."""
    for start in range(0, len(body), FEED_BYTES):
        yield body[start : start + FEED_BYTES]
