"""Turns what a terminal sends into Textual's events: each long text into one.

Textual's parser makes an event of each character. A file that is written to the terminal, or pasted into one that
does not mark pastes, became millions of them, of 1.5 kB each, which come faster than they are handled.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator, Iterable, Iterator

# The parser of the driver itself; its modules are private, and the driver does not say that it passes the names on.
from textual.drivers.linux_driver import XTermParser  # type: ignore[attr-defined]
from textual.events import Paste, Resize
from textual.message import Message

from zoea.text.screen_size import clamp_cells

log = logging.getLogger(__name__)

PASTE_LIMIT = 4_000_000
"""Characters of a pasted text at most, about as many as a message to a running swarm may have."""
BURST = 1_000
"""So many characters of text at once are taken as pasted: no one types them, and scripts send fewer keys at once."""
_SEQUENCE = 33
"""An escape sequence has fewer characters than this for the parser."""
_START, _END = "\x1b[200~", "\x1b[201~"
_PLAIN = r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
_TEXT = re.compile(f"{_PLAIN}+")
_LONG_TEXT = re.compile(f"{_PLAIN}{{{BURST},}}")


class PasteRefused(Message):
    """Sent in the place of a pasted text that is too long.

    Attributes:
        size: Its number of characters.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size


class _LongText:
    """A text that comes in pieces, kept up to the limit and counted over it."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0
        self.last = ""

    def add(self, piece: str) -> None:
        self._size += len(piece)
        self.last = piece[-1:] or self.last
        if self._size > PASTE_LIMIT:
            self._pieces.clear()
        else:
            self._pieces.append(piece)

    def event(self) -> Message:
        if self._size > PASTE_LIMIT:
            return PasteRefused(self._size)
        return Paste("".join(self._pieces).replace("\x00", ""))


class TerminalInput:
    """Parses keys and the mouse as Textual does, and long texts in bounded memory.

    Args:
        parser: Textual's, which parses everything but the long texts.
    """

    def __init__(self, parser: XTermParser) -> None:
        self._parser = parser
        self._seen = ""
        self._rest = ""
        self._burst: _LongText | None = None
        self._pasted: _LongText | None = None

    @property
    def is_in_burst(self) -> bool:
        """Whether an unmarked long text may go on; `tick` ends it."""
        return self._burst is not None

    def feed(self, data: str) -> Iterator[Message]:
        """Yield the events of the next input."""
        while data:
            if self._pasted is not None:
                data = yield from self._take_pasted(self._pasted, data)
            elif self._burst is not None:
                data = yield from self._take_burst(self._burst, data)
            else:
                data = yield from self._take_keys(data)

    def tick(self) -> Iterator[Message]:
        """Yield the events that a pause in the input completes."""
        if self._burst is not None:
            yield from self._end_burst(self._burst)
        yield from self._guard(self._parser.tick())

    def close(self) -> Iterator[Message]:
        """Yield what the end of the input completes: an escape stands for itself then."""
        if self._burst is not None:
            yield from self._end_burst(self._burst)
        yield from self._guard(self._parser.feed(""))

    def _guard(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield what the parser makes of input; begin with a new one after a sequence with impossible numbers.

        Textual's parser raises an error for such a sequence, and has ended then. A size that a terminal reports
        among its keys is limited.
        """
        try:
            for message in messages:
                yield _clamp(message) if isinstance(message, Resize) else message
        except (ArithmeticError, ValueError) as error:
            log.warning("input was dropped, because it holds a key or size that cannot exist: %s", error)
            self._parser = XTermParser()

    def _take_keys(self, data: str) -> Generator[Message, None, str]:
        """Parse up to the first long text. Return the input from there on."""
        marked = (self._seen + data).find(_START)
        begin = marked + len(_START) - len(self._seen) if marked >= 0 else len(data)
        if (found := _LONG_TEXT.search(data, 0, begin)) is not None:
            # What follows an escape may be the rest of its sequence.
            before = (self._seen + data[: found.start()])[-_SEQUENCE:]
            begin = min(found.start() + (_SEQUENCE if "\x1b" in before else 0), len(data))
            self._burst = _LongText()
        elif marked >= 0:
            self._pasted = _LongText()
        self._seen = (self._seen + data[:begin])[-len(_START) + 1 :] if self._pasted is None else ""
        yield from self._guard(self._parser.feed(data[:begin])) if begin else ()
        return data[begin:]

    def _take_burst(self, text: _LongText, data: str) -> Generator[Message, None, str]:
        """Keep the text that goes on, or end it. Return the input after it."""
        if (found := _TEXT.match(data)) is None:
            yield from self._end_burst(text)
            return data
        text.add(found[0])
        return data[found.end() :]

    def _end_burst(self, text: _LongText) -> Iterator[Message]:
        """Yield the text with its line ends, and enter as a key where it ends with it."""
        self._burst = None
        event = text.event()
        if isinstance(event, Paste):
            event.text = event.text.removesuffix("\r").replace("\r", "\n")
        yield event
        if text.last == "\r" and isinstance(event, Paste):
            yield from self._guard(self._parser.feed("\r"))

    def _take_pasted(self, text: _LongText, data: str) -> Generator[Message, None, str]:
        """Keep the text up to its end mark, which may come in pieces. Return the input after the mark."""
        held = self._rest + data
        end = held.find(_END)
        if end < 0:
            kept = next((size for size in range(len(_END) - 1, 0, -1) if held.endswith(_END[:size])), 0)
            text.add(held[: len(held) - kept])
            self._rest = held[len(held) - kept :]
            return ""
        text.add(held[:end])
        self._pasted, self._rest = None, ""
        # The parser is told the end too, and knows an empty text.
        yield from (event for event in self._guard(self._parser.feed(_END)) if not isinstance(event, Paste))
        yield text.event()
        return held[end + len(_END) :]


def _clamp(event: Resize) -> Resize:
    """Return the event with a size that a screen may have."""
    width, height = map(clamp_cells, event.size)
    return Resize.from_dimensions((width, height), event.pixel_size)
