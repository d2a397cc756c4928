"""Output to a terminal that is gone or does not read."""

from __future__ import annotations

import os
import pty
import threading
from collections.abc import Iterator
from io import StringIO

import pytest
from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread

from zoea.tui.terminal import terminal_driver
from zoea.tui.terminal.terminal_driver import TerminalOutput

PATIENCE_S = 30.0
BLOCK = "x" * 4_096


@pytest.fixture
def pair() -> Iterator[tuple[int, int]]:
    """Two ends of a pseudo-terminal: the program's and the window's."""
    window, terminal = pty.openpty()
    yield window, terminal
    for descriptor in (window, terminal):
        try:
            os.close(descriptor)
        except OSError:  # a test closed it
            continue


def test_texts_arrive_in_order(pair: tuple[int, int]) -> None:
    output = TerminalOutput(pair[1], lambda: None)
    for text in ("one ", "two ", "three\x04"):
        output.write(text)
    read = b""
    while b"\x04" not in read:
        read += os.read(pair[0], 100)
    assert read == b"one two three\x04"
    output.stop(PATIENCE_S)


def test_a_write_to_a_terminal_that_does_not_read_returns(pair: tuple[int, int]) -> None:
    lost = threading.Event()
    output = TerminalOutput(pair[1], lost.set)
    for _ in range(1_000):
        output.write(BLOCK)
    assert not lost.is_set()
    output.stop(0.01)


def test_a_full_queue_means_that_the_terminal_is_lost(pair: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_driver, "LIMIT", 100_000)
    lost: list[str] = []
    output = TerminalOutput(pair[1], lambda: lost.append("lost"))
    for _ in range(100):
        output.write(BLOCK)
    assert lost == ["lost"]


def test_a_closed_terminal_is_noticed_by_a_write(pair: tuple[int, int]) -> None:
    lost = threading.Event()
    output = TerminalOutput(pair[1], lost.set)
    os.close(pair[0])
    output.write("words")
    assert lost.wait(PATIENCE_S)
    output.write("more words")


def test_a_closed_terminal_is_noticed_without_a_write(pair: tuple[int, int]) -> None:
    lost = threading.Event()
    TerminalOutput(pair[1], lost.set)
    os.close(pair[0])
    assert lost.wait(PATIENCE_S)


def test_a_non_blocking_terminal_gets_all_output(pair: tuple[int, int]) -> None:
    os.set_blocking(pair[1], False)
    output = TerminalOutput(pair[1], lambda: None)
    output.write(BLOCK * 20 + "\x04")
    read = b""
    while b"\x04" not in read:
        read += os.read(pair[0], 65_536)
    assert len(read) == len(BLOCK) * 20 + 1
    output.stop(PATIENCE_S)


def test_textuals_own_writer_still_has_a_bounded_queue() -> None:
    """When this fails, Textual may not block any more: see whether `TerminalDriver` is still needed."""
    writer = WriterThread(StringIO())
    for _ in range(MAX_QUEUED_WRITES):
        writer.write("")
    assert writer._queue.full()
