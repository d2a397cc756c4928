"""What commands write: a value as JSON or as text, progress, and questions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

from zoea.model.errors import UsageError
from zoea.text.control_characters import reveal, reveal_exactly

if TYPE_CHECKING:
    from asyncio import TimerHandle

AFTER_S = 1.0
"""Seconds that a wait must last before it is reported."""

is_json = False
"""True while a command runs with `--json`: stderr then holds one error object or nothing."""

run_in_front: ContextVar[Callable[[Any], Any] | None] = ContextVar("run_in_front", default=None)
"""Does the work of a command that was typed in the plain front, which reads stdin; None for a process of its own."""


class Output(Struct, frozen=True):
    """The result of a command.

    Attributes:
        value: What `--json` writes; UNSET for nothing.
        text: The same for people, as one text or as lines; an iterator is not read with `--json`.
    """

    value: Any
    text: str | Iterable[str] = ()
    exit_code: int = 0


Outputs = Iterator[Output | str]
"""Results that are written one by one; a text alone is for people only."""


Result = Output | str | Iterable[Output | str] | int | None
"""What the function of a command returns."""


def as_text(result: Result) -> str:
    """Return the result of a command as text for people; a number has none."""
    match result:
        case None | int():
            return ""
        case str():
            return result
        case Output():
            return as_text(result.text)
    return "\n".join(map(as_text, result))


def write(result: Result) -> int:
    """Write the result of a command and return its exit code. Hidden characters are shown as escapes."""
    match result:
        case None | "":
            return 0
        case int():
            return result
        case str():
            if not is_json:
                sys.stdout.write(reveal(result) + "\n")
            return 0
        case Output():
            if is_json and result.value is not UNSET:
                write_json(result.value)
            elif not is_json:
                write(result.text)
            return result.exit_code
    code = 0
    for item in result:
        code = write(item) or code
        sys.stdout.flush()
    return code


def write_json(value: Any) -> None:
    """Write one JSON value to stdout; characters that UTF-8 cannot encode are replaced."""
    from zoea.ipc.codec import encode  # only JSON needs both
    from zoea.text.large_json import dump_shown

    sys.stdout.write(dump_shown(encode(value)) + "\n")


def write_document(data: bytes) -> None:
    """Write JSON or JSON lines. In a terminal hidden characters are JSON escapes, which mean the same."""
    if sys.stdout.isatty():
        data = reveal_exactly(data.decode("utf-8", "replace")).encode("utf-8", "replace")
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def tell(text: str) -> None:
    """Write a text for people before the result, unless the command runs with `--json`."""
    if not is_json:
        write(text)
        sys.stdout.flush()


def warn(text: str) -> None:
    """Write a text to stderr, also with `--json`."""
    sys.stderr.write(reveal(text) + "\n")


def say(line: str) -> None:
    """Write one line to stderr, unless it is empty or the command runs with `--json`."""
    if line and not is_json:
        sys.stderr.write(f"zoea: {line}\n")


def say_progress(text: str) -> None:
    """Write progress to stderr if it is a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{text}\n")


def soon(line: str) -> TimerHandle:
    """Say the line after `AFTER_S` seconds, unless the returned handle is cancelled before."""
    import asyncio  # late: the commands that never wait do not need it
    import threading

    def begin() -> None:
        # A terminal that does not read blocks its writer, which must not be the event loop.
        threading.Thread(target=say, args=(line,), daemon=True, name="notice").start()

    return asyncio.get_running_loop().call_later(AFTER_S, begin)


def is_typed() -> bool:
    """Return whether stdin is a terminal, where a person can be asked."""
    return run_in_front.get() is None and sys.stdin.isatty()


MOST_ANSWER = 1_000
"""Characters of a line that answers a question."""

MOST_STDIN = 16_000_000
"""Characters of stdin that a command reads: more than any text that it takes, and no device without end."""


def read_stdin() -> str:
    """Read stdin to its end. Raises UsageError in a front, and for more than `MOST_STDIN` characters."""
    if run_in_front.get() is not None:
        raise UsageError("a line that is typed here cannot read stdin", hint="Write the text itself in place of -.")
    try:
        text = sys.stdin.read(MOST_STDIN + 1)
    except UnicodeDecodeError as error:
        raise UsageError(f"stdin is not text: {error}", hint="Give a text in UTF-8.") from error
    if len(text) > MOST_STDIN:
        raise UsageError(f"stdin holds more than {MOST_STDIN:,} characters", hint="Give a shorter text.")
    return text


def confirm(question: str) -> bool:
    """Ask a question on stderr and return whether the person agrees. The end of the input interrupts.

    Raises UsageError in a front.
    """
    if run_in_front.get() is not None:
        raise UsageError(f"nothing was done: {question}", hint="Type the line again with --yes.")
    while True:
        sys.stderr.write(f"{reveal(question)} [y/N]: ")
        sys.stderr.flush()
        if not (line := sys.stdin.readline(MOST_ANSWER)):
            raise KeyboardInterrupt
        match line.strip().lower():
            case "y" | "yes":
                return True
            case "" | "n" | "no":
                return False
        sys.stderr.write("Answer y or n.\n")


def moment(at: int) -> str:
    """Format microseconds since the epoch as local date and time; empty for 0."""
    return datetime.fromtimestamp(at / 1_000_000).strftime("%Y-%m-%d %H:%M:%S") if at else ""
