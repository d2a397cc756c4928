"""No command reads stdin without end: the table is made of what the help of each command says."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import pytest

from tests.architecture.sources import PACKAGE, text_of
from tests.cli.conftest import Zoea
from tests.fakes.owner import OwnerThread
from zoea.cli.dispatch import COMMANDS, load
from zoea.cli.output import MOST_STDIN, confirm
from zoea.process.command_line import REQUIRED

NOT_READ_WHOLE = {"mcp", "acp", "world", "workbench"}
"""Commands that answer what comes by stdin, message by message."""


class Endless:
    """A stdin as of `/dev/zero`, which counts the characters that were read of it."""

    taken = 0

    def read(self, size: int = -1) -> str:
        assert size >= 0, "all of it is read"
        self.taken += size
        return "a" * size

    def isatty(self) -> bool:
        return False


def commands_that_read_stdin() -> Iterator[tuple[str, ...]]:
    """Yield a line for each word, option and command that says that it reads stdin."""

    def walk(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        command, _ = load(words)
        if command.function is not None and words[0] not in NOT_READ_WHOLE:
            parameters = command.line.parameters.values()
            names = list(command.line.words.values())
            needed = [one for one in names if one.default is REQUIRED]
            reads = [one for one in parameters if "stdin" in one.text and re.search("reads", one.text)]
            for own in reads:
                before = (one.metavar for one in (needed if own.names else names[: names.index(own)]))
                yield (*words, *before, *own.names[:1], "-")
            if not reads and "stdin" in (command.function.__doc__ or ""):
                yield (*words, *(one.metavar for one in needed))
        for name in command.below:
            yield from walk((*words, name))

    for name in COMMANDS:
        yield from walk((name,))


@pytest.mark.parametrize("line", tuple(commands_that_read_stdin()), ids=" ".join)
def test_a_text_without_end_is_refused(
    zoea: Zoea, other_owner: OwnerThread, monkeypatch: pytest.MonkeyPatch, line: tuple[str, ...]
) -> None:
    stdin = Endless()
    monkeypatch.setattr("sys.stdin", stdin)
    done = zoea(*line)
    assert (done.code, "stdin holds more than" in done.err) == (2, True), done
    assert stdin.taken == MOST_STDIN + 1


def test_the_commands_that_read_stdin_are_found() -> None:
    assert {" ".join(line) for line in commands_that_read_stdin()} >= {
        "send NAME -",
        "broadcast -",
        "topic publish TOPIC -",
        "approve ID|NAME --change -",
        "redact -",
        "credentials set NAME",
    }


def test_what_is_no_text_is_refused(zoea: Zoea, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\xff"), "utf-8"))
    done = zoea("redact", "-", "--yes")
    assert (done.code, "stdin is not text" in done.err) == (2, True), done


def test_a_line_without_end_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lines(Endless):
        def readline(self, size: int = -1) -> str:
            if self.taken:
                return "y\n"
            return self.read(size)

    monkeypatch.setattr("sys.stdin", Lines())
    assert confirm("Go on?")


def test_stdin_is_read_whole_in_one_place() -> None:
    reads = re.compile(r"stdin\.(?:buffer\.)?read(?:line|lines)?\(|\bfor \w+ in sys\.stdin\b")
    found = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py") if reads.search(text_of(file))}
    children = {"llm/local/llama_child.py": "what Zoea writes", "agents/tools_bridge.py": "what its agent writes"}
    assert found == {"cli/output.py", *children}
