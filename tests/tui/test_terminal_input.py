"""What a terminal sends: keys as Textual parses them, each long text as one paste, and bounded memory."""

from __future__ import annotations

import asyncio
import os
import pty
import termios
import threading
import tty
from collections.abc import Iterable

import pytest
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.events import Key, Paste, Resize
from textual.message import Message

from tests.case_tables import walk_cases
from tests.waiting import until
from zoea.tui.terminal import terminal_input
from zoea.tui.terminal.paced_driver import MOST_WAITING, READ_BYTES
from zoea.tui.terminal.terminal_driver import TerminalDriver
from zoea.tui.terminal.terminal_input import BURST, LINE_END_S, TYPED_S, PasteRefused, TerminalInput

LONG = "dig at the belt, then sell. " * (BURST // 10)


@pytest.fixture
def keyboard() -> TerminalInput:
    return TerminalInput(XTermParser())


def described(messages: Iterable[Message]) -> list[str | int]:
    """Keys by name, pasted texts as they are, refused ones as their size."""
    found: list[str | int] = []
    for message in messages:
        match message:
            case Key():
                found.append(message.key)
            case Paste():
                found.append(message.text)
            case PasteRefused():
                found.append(message.size)
    return found


def fed(keyboard: TerminalInput, data: str, piece: int = READ_BYTES) -> list[str | int]:
    """What input in pieces gives, and what the silence after it completes."""
    pieces = [data[at : at + piece] for at in range(0, len(data), piece)]
    return described([*(event for part in pieces for event in keyboard.feed(part)), *keyboard.tick()])


@pytest.mark.parametrize(
    "typed", ["bxd and X\r", "\x1b[A\x1b[B", "\x1b[<35;4;5Mm", "é鉄\x0f\t", "\x1b[200", "a" * (BURST - 1)]
)
def test_keys_are_those_of_textual_s_parser(keyboard: TerminalInput, typed: str) -> None:
    assert fed(keyboard, typed) == described(XTermParser().feed(typed))


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 7, READ_BYTES])
def test_a_marked_text_is_one_paste_in_whatever_pieces_it_comes(keyboard: TerminalInput, piece: int) -> None:
    text = f"a\x1b[20\x00\r\n{LONG}\x1b[20"
    assert fed(keyboard, f"m\x1b[200~{text}\x1b[201~\x1b[Ay", piece) == [
        "m",
        text.replace("\x00", "").replace("\r\n", "\n"),
        "up",
        "y",
    ]
    assert fed(keyboard, "\x1b[200~\x1b[201~\x1b[200~x\x1b[201~", piece) == ["", "x"]


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 7, READ_BYTES])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one\x1b[201~y", ["one", "y"]),
        ("one\x1b[201~y\ry\x1b[A\x1b[200~two", ["one", "y\ny\x1b[A", "two"]),
        ("\x1b[201~\x1b[201~X\x1b[200~\x1b[201~X", ["", "X", "", "X"]),
        (f"one\x1b[201~{'y' * 2 * BURST}", ["one", "y" * 2 * BURST]),
    ],
)
def test_a_marked_text_that_holds_marks_itself_presses_no_key(
    keyboard: TerminalInput, text: str, shown: list[str], piece: int
) -> None:
    """A page can put them into the clipboard."""
    assert fed(keyboard, f"\x1b[200~{text}\x1b[201~", piece) == shown
    assert fed(keyboard, "y") == ["y"]


def test_a_key_after_a_marked_text_waits_until_no_mark_can_follow(keyboard: TerminalInput) -> None:
    assert described(keyboard.feed("\x1b[200~one\x1b[201~\r")) == ["one"]
    assert keyboard.quiet_s == LINE_END_S
    assert described(keyboard.tick()) == ["enter"]
    assert keyboard.quiet_s > LINE_END_S
    assert described(keyboard.feed("\x1b[200~\x1b[201~" + "y" * BURST)) == [""]
    assert described(keyboard.tick()) == ["y" * BURST]
    assert described([*keyboard.feed("\x1b[200~two\x1b[201~s"), *keyboard.close()]) == ["two", "s"]


def test_a_long_text_without_marks_is_one_paste_and_its_last_enter_is_a_key(keyboard: TerminalInput) -> None:
    assert fed(keyboard, f"{LONG * 10}\r") == [LONG * 10, "enter"]
    assert fed(keyboard, f"{LONG * 10}\rsecond\r") == [f"{LONG * 10}\nsecond\n"]
    assert fed(keyboard, f"{LONG}\x0fx") == [LONG, "ctrl+o", "x"]


def test_an_escape_sequence_before_a_long_text_is_no_part_of_it(keyboard: TerminalInput) -> None:
    assert fed(keyboard, f"\x1b[A\x1bOB\x1b[<35;4;5M{LONG}") == ["up", "down", LONG]
    assert fed(keyboard, "\x1b[A") + fed(keyboard, "a\rb") == ["up", "a\nb"]


@walk_cases("piece", [1, 2, 3, 4, 5, 7, READ_BYTES])
@walk_cases("text", ["one\rtwo\r\rthree", "\r  indented\n\n", "one\r\ttwo\r", "a\rX\rX\r"])
def test_lines_without_marks_send_nothing_and_press_no_key(text: str, piece: int) -> None:
    """Also where they come in pieces, or character by character, as from a Windows console."""
    clock = iter(range(1_000_000))
    keyboard = TerminalInput(XTermParser(), now=lambda: next(clock) * TYPED_S / 2)
    shown = fed(keyboard, f"x{text}", piece)
    names = {"space": " ", "tab": "\t", "enter": "ENTER"}
    written = "".join(names.get(str(each), str(each)) for each in shown)
    assert written == f"x{text}".replace("\r", "\n")


@walk_cases("piece", [1, 2, 3, READ_BYTES])
def test_lines_after_a_first_line_end_press_no_key(piece: int) -> None:
    clock = iter(range(1_000_000))
    keyboard = TerminalInput(XTermParser(), now=lambda: next(clock) * TYPED_S / 2)
    assert fed(keyboard, "\rtwo\rX", piece) == (["enter", "two\nX"] if piece == 1 else ["\ntwo\nX"])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one\rtwo\x1b[Bs\x03", "one\ntwo\x1b[Bs\x03"),
        ("\x1b[31mred\x1b[0m\rline", "red\x1b[0m\nline"),
        ("one\x0b\rtwo\x0cX", "one\x0b\ntwo\x0cX"),
        ("one\rtwo\x1b[<35;4;5M\x1b[O\x1b", "one\ntwo\x1b"),
    ],
)
def test_lines_without_marks_press_no_key_by_a_control_character_in_them(
    keyboard: TerminalInput, text: str, shown: str
) -> None:
    messages = [*keyboard.feed(text), *keyboard.tick()]
    pasted = [each.text for each in messages if isinstance(each, Paste)]
    assert pasted == [shown]
    assert not any(isinstance(each, Key) and each.is_printable for each in messages)
    assert fed(keyboard, "\x1b[Ay") == ["up", "y"]


def test_a_key_after_lines_without_marks_counts_after_a_pause() -> None:
    passed = 0.0
    keyboard = TerminalInput(XTermParser(), now=lambda: passed)
    assert described(keyboard.feed(f"{LONG}\r{LONG}")) == []
    passed += LINE_END_S * 2
    assert described(keyboard.feed("\x1b[A")) == [f"{LONG}\n{LONG}", "up"]


@walk_cases("typed", ["hello\r", "\r", "a\r\r", "j\rk\r"])
def test_what_a_person_types_is_keys_however_fast(typed: str) -> None:
    clock = iter(range(1_000))
    keyboard = TerminalInput(XTermParser(), now=lambda: next(clock) * TYPED_S * 4)
    shown = [each for character in typed for each in described(keyboard.feed(character))]
    assert shown == described(XTermParser().feed(typed))


def test_keys_that_come_at_once_have_one_time_and_what_a_person_types_has_its_own() -> None:
    passed = 0.0
    keyboard = TerminalInput(XTermParser(), now=lambda: passed)
    times = list[float]()
    for piece, pause in (("nalp", 0.0), ("ha\r", TYPED_S / 2), ("b", 1.0), ("c", TYPED_S * 4)):
        passed += pause
        times += [message.time for message in [*keyboard.feed(piece), *keyboard.tick()] if isinstance(message, Key)]
    assert times == [0.0] * 7 + [TYPED_S / 2 + 1.0, TYPED_S / 2 + 1.0 + TYPED_S * 4]


def test_a_line_end_after_a_line_is_a_key_when_nothing_follows_soon() -> None:
    clock = iter(range(1_000))
    keyboard = TerminalInput(XTermParser(), now=lambda: next(clock))
    assert described(keyboard.feed("hello\r")) == list("hello")
    assert keyboard.quiet_s == LINE_END_S
    assert described(keyboard.tick()) == ["enter"]
    assert keyboard.quiet_s > LINE_END_S
    assert described(keyboard.feed("hello\r")) + described(keyboard.feed("\x1b[A")) == [*"hello", "enter", "up"]


@pytest.mark.parametrize("marks", [("", ""), ("\x1b[200~", "\x1b[201~")], ids=["unmarked", "marked"])
def test_a_text_over_the_limit_is_refused_whole_and_the_keys_after_it_count(
    keyboard: TerminalInput, marks: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal_input, "PASTE_LIMIT", 10_000)
    assert described(keyboard.feed(f"{marks[0]}{'x' * 10_001}")) == []
    text = keyboard._pasted or keyboard._burst
    assert text is not None
    assert text.text == "", "more than the limit is kept"
    assert fed(keyboard, f"{'x'}{marks[1]}") == [10_002]
    assert fed(keyboard, f"{marks[0]}{'x' * 10_000}{marks[1]}\x1b[A") == ["x" * 10_000, "up"]


def test_the_end_of_the_input_completes_an_escape_and_a_long_text(keyboard: TerminalInput) -> None:
    assert described([*keyboard.feed("\x1b"), *keyboard.close()]) == ["escape"]
    other = TerminalInput(XTermParser())
    assert described([*other.feed(LONG), *other.close()]) == [LONG]


@pytest.mark.parametrize(
    "impossible",
    [
        "\x1b[99999999999u",
        "\x1b[99999999999;B",
        "\x1b[1114112u",
        "\x1b[0:1u",
        "\x1b[:A",
        "\x1b[48;9;9;0;0t\x1b[<0;1;1M",
    ],
)
def test_a_sequence_with_impossible_numbers_is_dropped_and_the_keys_after_it_count(
    keyboard: TerminalInput, impossible: str, caplog: pytest.LogCaptureFixture
) -> None:
    described(keyboard.feed(impossible))
    assert fed(keyboard, "\x1b[Aq") == ["up", "q"]
    assert "a key or size that cannot exist" in caplog.text


@pytest.mark.parametrize(
    ("rows", "columns", "shown"), [(0, 0, (1, 1)), (40, 120, (120, 40)), (999_999_999, 65_535, (1_000, 1_000))]
)
def test_a_size_among_the_keys_is_one_that_a_screen_may_have(
    keyboard: TerminalInput, rows: int, columns: int, shown: tuple[int, int]
) -> None:
    sizes = [event.size for event in keyboard.feed(f"\x1b[48;{rows};{columns};9;9t") if isinstance(event, Resize)]
    assert sizes == [shown]


@pytest.mark.parametrize(("reported", "columns"), [(65_535, "80"), (0, "999999999")])
async def test_a_terminal_or_an_environment_of_an_impossible_size_is_limited(
    monkeypatch: pytest.MonkeyPatch, reported: int, columns: str
) -> None:
    window, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (reported, reported))
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LINES", columns)
    with os.fdopen(terminal, "w") as output:
        monkeypatch.setattr("sys.__stderr__", output)
        driver = TerminalDriver(DeafApp())
        assert driver._get_terminal_size() == (1_000, 1_000)
        assert driver._size == (1_000, 1_000)  # the app's first size
    os.close(window)


class DeafApp(App[None]):
    """An app that takes messages and handles none."""

    async def _post_message(self, message: Message) -> bool:
        taken.append(message)
        return True


taken: list[Message] = []


async def test_a_terminal_is_not_read_while_too_many_keys_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    window, terminal = pty.openpty()
    tty.setraw(terminal)
    taken.clear()
    counts: list[int] = []

    def count() -> int:
        counts.append(len(taken))
        return counts[-1]

    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr("sys.__stdin__", stdin)
        driver = TerminalDriver(DeafApp())
        driver.count_waiting(count)
        reading = threading.Thread(target=driver.run_input_thread)
        reading.start()
        writing = asyncio.create_task(asyncio.to_thread(_write_all, window, b"\x1b[B" * 8_000 + b"\xff\xe9q"))
        keys: list[str] = []

        def has_all() -> bool:
            keys.extend(message.key for message in taken if isinstance(message, Key))
            taken.clear()
            return keys[-1:] == ["q"]

        try:
            await until(lambda: len(counts) > 4 and MOST_WAITING < counts[-1] == counts[-4])
            assert len(taken) < MOST_WAITING + READ_BYTES
            await until(has_all)
            assert len(keys) == 8_003
        finally:
            driver.exit_event.set()
            await writing
            await asyncio.to_thread(reading.join)
            os.close(window)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
