"""Parses terminal input into events, each paste into one, marked or not.

Textual's parser makes an event of each character. A text pasted into a terminal that does not mark pastes (ssh, nested
tmux, Windows) became keys: its first line end sent a message, and its other lines ran as commands. A file became
millions of events of 1.5 kB each, which come faster than they are handled.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator

# The parser of the driver itself; its modules are private, and the driver does not say that it passes the names on.
from textual.drivers.linux_driver import XTermParser  # type: ignore[attr-defined]  # Textual has no public name for it
from textual.events import Key, Paste, Resize
from textual.message import Message

from zoea.text.screen_size import clamp_cells

log = logging.getLogger(__name__)

PASTE_LIMIT = 4_000_000
"""Characters of a pasted text at most, about as many as a message to a running swarm may have."""
BURST = 1_000
"""So many characters of text at once are taken as pasted, besides texts of several lines: no one types them."""
QUIET_S, LONG_QUIET_S, LINE_END_S = 0.1, 1.0, 0.03
"""Seconds without input after which an escape stands for itself and a text is complete, a long text is, and a line end
that followed other text or what followed an end mark is a key."""
TYPED_S = 0.005
"""Seconds between two characters below which no person has typed them."""
_START, _END = "\x1b[200~", "\x1b[201~"
_END_MARK, _MARK = re.compile(re.escape(_END)), re.compile(f"{re.escape(_START)}|{re.escape(_END)}")
_PLAIN, _INK = r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", r"[^\x00-\x1f\x7f]"
_TEXT = re.compile(f"{_PLAIN}+")
_LINE_ENDS, _INK_FIRST = re.compile(r"[\r\n][\r\n\t]*"), re.compile(_INK)
_REPORT = re.compile(r"\x1b\[(?:<[0-9;]*[Mm]|[IO])")
"""What a terminal reports of the mouse and of the focus."""
_LAST_LINE_END = re.compile(rf"(?<={_INK})[\r\n][\r\n\t]*\Z")
_TOKEN = re.compile(
    rf"""
    \x1b\[[0-?]*[\ -/]*[@-~] | \x1bO. | \x1b[^\[O]                              # a whole sequence
  | (?P<part>\x1b(?:\[[0-?]*[\ -/]*|O)?\Z)                                    # the beginning of one
  | (?P<text>{_PLAIN}{{{BURST},}} | (?:(?![\r\n]){_PLAIN})*[\r\n][\r\n\t]*{_INK})  # long, or of several lines
  | {_PLAIN}+ | .
    """,
    re.VERBOSE | re.DOTALL,
)


class PasteRefused(Message):
    """Sent in the place of a pasted text that is too long.

    Attributes:
        size: Its number of characters.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size


class _LongText:
    """A text that comes in pieces, kept up to the limit and counted over it. One `of_lines` may hold any character."""

    def __init__(self, *, of_lines: bool = False) -> None:
        self.of_lines = of_lines
        self._pieces: list[str] = []
        self.size = 0
        self.last = ""

    def add(self, piece: str) -> None:
        self.size += len(piece)
        self.last = piece[-1:] or self.last
        if self.size > PASTE_LIMIT:
            self._pieces.clear()
        else:
            self._pieces.append(piece)

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def event(self) -> Message:
        if self.size > PASTE_LIMIT:
            return PasteRefused(self.size)
        return Paste(self.text.replace("\x00", "").replace("\r\n", "\n").replace("\r", "\n"))


class TerminalInput:
    """Parses keys and the mouse as Textual does, and pasted texts in bounded memory.

    A line end is a key only where no text follows it at once. A pasted text may hold the marks themselves, which no
    browser and not every terminal removes: what comes at once with an end mark is keys only where no mark follows.

    Args:
        parser: Textual's, which parses everything but the pasted texts.
        now: Returns seconds; each call of `feed` is one read of the terminal.
    """

    def __init__(self, parser: XTermParser, now: Callable[[], float] = time.monotonic) -> None:
        self._parser = parser
        self._now = now
        self._fed_at = 0.0
        self._begun = 0.0
        """When the input began that came faster than a person types."""
        self._last = ""
        """The character that was read last."""
        self._open = ""
        """The beginning of an escape sequence, which the parser has too."""
        self._line_ends = ""
        """Line ends that are keys, unless text follows them."""
        self._seen = ""
        self._rest = ""
        self._burst: _LongText | None = None
        self._pasted: _LongText | None = None
        self._is_after_end = False
        """Whether `_pasted` is what came at once with an end mark."""

    @property
    def quiet_s(self) -> float:
        """The seconds without input after which `tick` completes an open sequence."""
        if self._line_ends or self._is_after_end:
            return LINE_END_S
        return QUIET_S if self._burst is None or self._burst.size < BURST else LONG_QUIET_S

    def feed(self, data: str) -> Iterator[Message]:
        """Yield the events of the next input. The `time` of a key is that of the input which came at once with it."""
        return self._stamp(self._feed(self._join_typed(data)))

    def _stamp(self, messages: Iterable[Message]) -> Iterator[Message]:
        for message in messages:
            if isinstance(message, Key | Paste):
                message.time = self._begun
            yield message

    def _feed(self, data: str) -> Iterator[Message]:
        while data:
            if self._pasted is not None:
                data = yield from self._take_pasted(self._pasted, data)
            elif self._burst is not None:
                data = yield from self._take_burst(self._burst, data)
            else:
                data = yield from self._take_keys(data)

    def _join_typed(self, data: str) -> str:
        """Join input that came faster than a person types; return the text to parse."""
        last, self._last = self._last, data[-1:]
        before, self._fed_at = self._fed_at, self._now()
        is_quick = bool(last) and self._fed_at - before < TYPED_S
        self._begun = self._begun if is_quick or self._line_ends else self._fed_at
        data, line_ends = self._line_ends + data, self._line_ends
        self._line_ends = ""
        if self._burst is None and self._pasted is None:
            if _LINE_ENDS.fullmatch(data) and (line_ends or (is_quick and last.isprintable())):
                self._line_ends, data = data, ""
            elif is_quick and not line_ends and last in "\r\n" and _INK_FIRST.match(data):
                self._burst = _LongText(of_lines=True)
        elif self._burst is not None and self._fed_at - before > LINE_END_S:
            self._burst.of_lines = False  # a control character is a key again
        return data

    def tick(self) -> Iterator[Message]:
        """Yield the events that a pause in the input completes."""
        self._open = ""
        yield from self._stamp(self._complete())
        yield from self._stamp(self._guard(self._parser.tick()))

    def close(self) -> Iterator[Message]:
        """Yield what the end of the input completes: an escape stands for itself then."""
        yield from self._complete()
        yield from self._guard(self._parser.feed(""))

    def _complete(self) -> Iterator[Message]:
        if self._pasted is not None and self._is_after_end:
            after, rest = self._pasted, self._rest
            self._pasted, self._rest, self._is_after_end = None, "", False
            yield from self._feed(after.text + rest) if after.size < BURST else (after.event(),)
        if self._burst is not None:
            self._last = ""  # after a pause nothing belongs to it
            yield from self._end_burst(self._burst)
        line_ends, self._line_ends = self._line_ends, ""
        if line_ends:
            yield from self._guard(self._parser.feed(line_ends))

    def _guard(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield what the parser makes of input. Begin with a new one after a sequence with impossible numbers.

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
        """Parse up to the first pasted text. Return the input from there on."""
        marked = (self._seen + data).find(_START)
        begin = marked + len(_START) - len(self._seen) if marked >= 0 else len(data)
        if (found_text := self._find_text(data[:begin])) is not None:
            begin, of_lines = found_text
            self._burst = _LongText(of_lines=of_lines)
        elif marked >= 0:
            self._pasted = _LongText()
            self._open = ""
        self._seen = (self._seen + data[:begin])[-len(_START) + 1 :] if self._pasted is None else ""
        keys = data[:begin]
        if begin == len(data) and (found := _LAST_LINE_END.search(keys)):
            keys, self._line_ends = keys[: found.start()], found[0]
        yield from self._guard(self._parser.feed(keys)) if keys else ()
        return data[begin:]

    def _find_text(self, data: str) -> tuple[int, bool] | None:
        """Return where the first pasted text outside escape sequences begins, and whether it has lines.

        One of lines begins with the first character of the input that is text, because sequences may stand in it.
        """
        before, self._open = len(self._open), self._open + data
        first: int | None = None
        for token in _TOKEN.finditer(self._open):
            if first is None and _INK_FIRST.match(token[0]):
                first = token.start()
            if (text := token["text"]) is not None:
                self._open = ""
                of_lines = len(text) < BURST or _LINE_ENDS.search(text) is not None
                start = token.start() if first is None or not of_lines else first
                return max(0, start - before), of_lines
            if token["part"] is not None:
                self._open = token[0]
                return None
        self._open = ""
        return None

    def _take_burst(self, text: _LongText, data: str) -> Generator[Message, None, str]:
        """Keep the text that goes on, or end it. Return the input after it."""
        if text.of_lines:
            end = data.find(_START)
            text.add(_REPORT.sub("", data if end < 0 else data[:end]))
            if end >= 0:
                yield from self._end_burst(text)
            return "" if end < 0 else data[end:]
        if (found := _TEXT.match(data)) is None:
            yield from self._end_burst(text)
            return data
        text.add(found[0])
        return data[found.end() :]

    def _end_burst(self, text: _LongText) -> Iterator[Message]:
        """Yield the text with its line ends. Enter at the end of its only line is a key."""
        self._burst = None
        event = text.event()
        is_sent = False
        if isinstance(event, Paste):
            is_sent = text.last == "\r" and event.text.find("\n") == len(event.text) - 1
            event.text = event.text.removesuffix("\n") if is_sent else event.text
        yield event
        if is_sent:
            yield from self._guard(self._parser.feed("\r"))

    def _take_pasted(self, text: _LongText, data: str) -> Generator[Message, None, str]:
        """Keep the text up to its end mark, which may come in pieces. Return the input after the mark."""
        held, is_after_end = self._rest + data, self._is_after_end
        found = (_MARK if is_after_end else _END_MARK).search(held)
        if found is None:
            marks = (_START, _END)
            kept = next(
                (size for size in range(len(_END) - 1, 0, -1) if held.endswith((marks[0][:size], marks[1][:size]))), 0
            )
            text.add(held[: len(held) - kept])
            self._rest = held[len(held) - kept :]
            return ""
        text.add(held[: found.start()])
        self._pasted, self._rest, self._is_after_end = _LongText(), "", found[0] == _END
        if found[0] == _START or not is_after_end:
            # The parser is told the marks too, and knows an empty text.
            yield from (event for event in self._guard(self._parser.feed(found[0])) if not isinstance(event, Paste))
        if text.size or not is_after_end:
            yield text.event()
        return held[found.end() :]


def _clamp(event: Resize) -> Resize:
    """Return the event with a size that a screen may have."""
    width, height = map(clamp_cells, event.size)
    return Resize.from_dimensions((width, height), event.pixel_size)
