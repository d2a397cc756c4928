"""Server-sent events are decoded however networks and servers cut them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from zoea.llm.transport.answer_bounds import AnswerBounds
from zoea.llm.transport.event_stream import EventReader, LineReader

EVENTS = 'event: one\ndata: {"a": "ä"}\n\n: keep-alive\n\ndata: x\ndata: y\n\ndata: [DONE]\n\n'.encode()
READ = [("one", '{"a": "ä"}'), ("message", "x\ny"), ("message", "[DONE]")]


def read(*pieces: bytes) -> list[tuple[str, str]]:
    reader = EventReader(AnswerBounds("p"))
    found = [event for piece in pieces for event in reader.feed(piece)]
    return found + reader.end()


@given(st.lists(st.integers(0, len(EVENTS)), max_size=12))
def test_events_are_the_same_however_the_bytes_are_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(EVENTS)]
    pieces = [EVENTS[start:end] for start, end in pairwise(edges)]
    assert read(*pieces) == READ


@given(st.lists(st.integers(0, 90), max_size=12))
def test_carriage_returns_change_nothing(cuts: list[int]) -> None:
    data = EVENTS.replace(b"\n", b"\r\n")
    edges = [0, *sorted(cuts), len(data)]
    assert read(*(data[start:end] for start, end in pairwise(edges))) == READ


def test_a_comment_is_no_event() -> None:
    assert read(b": OPENROUTER PROCESSING\n\n", b":\n\n") == []


def test_a_last_event_without_its_blank_line_is_read_at_the_end() -> None:
    assert read(b"data: last") == [("message", "last")]
    assert read(b"data: last\n") == [("message", "last")]


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert read(b"data: a\xffb\n\n") == [("message", "a�b")]
    assert read(b"data: cut \xc3") == [("message", "cut �")]


def test_lines_come_whole_and_without_blank_ones() -> None:
    reader = LineReader()
    assert reader.feed(b'{"a":') == []
    assert reader.feed(b'1}\r\n\n{"b":2}\n{"c"') == ['{"a":1}', '{"b":2}']
    assert reader.end() == ['{"c"']
    assert reader.end() == []
