"""Commands with options declared as the fields of a dataclass, for commands that must start fast.

It does without typer, because loading typer takes a large part of the time to the first paint.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import field, fields
from typing import Any, Generic, TypeVar

from msgspec import Struct

from zoea.model.errors import UsageError

HELP = "--help"
WORKSPACE_HELP = "Workspace; if not given, ZOEA_WORKSPACE or the settings name it."
WIDEST = 80
"""Columns of the help text in a wider terminal."""

Options = TypeVar("Options")


class Option(Struct, frozen=True):
    """An option on the command line. Without a `metavar` it is a flag, which takes no value."""

    names: tuple[str, ...]
    help: str
    metavar: str = ""
    parse: Callable[[str], Any] = str
    is_repeatable: bool = False
    bare: str | None = None
    """The value where the option is given without one; None where it needs one."""

    @property
    def usage(self) -> str:
        metavar = f"[{self.metavar}]" if self.bare is not None else self.metavar
        return " ".join(filter(None, (", ".join(self.names), metavar)))


class Words(Struct, frozen=True):
    """The words of a command line that are no options. At least one must be given."""

    metavar: str
    help: str


def flag(name: str, text: str) -> Any:
    """Return a dataclass field for an option that is True when given."""
    return field(default=False, metadata={"option": Option((name,), text)})


def words(metavar: str, text: str) -> Any:
    """Return a dataclass field for a tuple of the words that are no options."""
    return field(default=(), metadata={"words": Words(metavar, text)})


def repeatable(*names: str, metavar: str, text: str) -> Any:
    """Return a dataclass field for a tuple of all values of an option."""
    return field(default=(), metadata={"option": Option(names, text, metavar, is_repeatable=True)})


def choice(name: str, values: Iterable[str]) -> Callable[[str], str]:
    """Return a parser for an option `name` that takes one of these values."""
    known = tuple(values)

    def parse(text: str) -> str:
        if text not in known:
            raise UsageError(f"{name} {text!r} is unknown", hint=f"Give one of {', '.join(known)}.")
        return text

    return parse


def option(
    *names: str, metavar: str, text: str, default: Any = "", parse: Callable[[str], Any] = str, bare: str | None = None
) -> Any:
    """Return a dataclass field for an option with a value. `parse` raises UsageError for a wrong one.

    Args:
        bare: The value of the option without one, for a command without other words.
    """
    return field(default=default, metadata={"option": Option(names, text, metavar, parse, bare=bare)})


def whole_number(name: str, lowest: int, highest: int | None = None) -> Callable[[str], int]:
    """Return a parser of whole numbers within limits for the option `name`."""
    hint = f"Give a number from {lowest} to {highest}." if highest else f"Give a number from {lowest} on."

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise UsageError(f"{name} {text!r} is not a whole number", hint=hint) from None
        if number < lowest or (highest is not None and number > highest):
            raise UsageError(f"{name} {number} is out of range", hint=hint)
        return number

    return parse


class LightCommand(Generic[Options]):
    """A command that parses its own options; its help starts with the docstring of `run`."""

    def __init__(self, name: str, options: type[Options], run: Callable[[Options], int]) -> None:
        self.name = name
        self._type = options
        self._run = run
        self._fields: dict[str, Option] = {
            made.name: made.metadata["option"]
            for made in fields(options)  # type: ignore[arg-type]  # a dataclass
            if "option" in made.metadata
        }
        self._words: dict[str, Words] = {
            made.name: made.metadata["words"]
            for made in fields(options)  # type: ignore[arg-type]  # a dataclass
            if "words" in made.metadata
        }

    def main(self, arguments: list[str]) -> int:
        """Run the command line, or write the help, and return the exit code.

        Raises:
            UsageError: The command does not accept an argument.
        """
        if (options := self.parse(arguments)) is not None:
            return self._run(options)
        import shutil  # only the help needs it

        sys.stdout.write(self.help_text(min(shutil.get_terminal_size().columns, WIDEST)) + "\n")
        return 0

    def parse(self, arguments: list[str]) -> Options | None:
        """Return the options of a command line; None if it asks for help. The last of equal options counts.

        Raises:
            UsageError: An option is unknown, lacks its value, or has a wrong one.
        """
        by_name = {name: (key, option) for key, option in self._fields.items() for name in option.names}
        values: dict[str, Any] = {}
        given: list[str] = []
        left = deque(arguments)
        while left:
            word = left.popleft()
            if self._words and word == "--":
                given += left
                break
            if self._words and (word == "-" or not word.startswith("-")):
                given.append(word)
                continue
            name, value = _split(word)
            if name == HELP:
                return None
            if name not in by_name:
                raise self._unknown(word, name, [*by_name, HELP])
            key, option = by_name[name]
            if not option.metavar:
                if value is not None:
                    raise self._error(f"{name} takes no value")
                values[key] = True
                continue
            if value is None and option.bare is not None and (not left or left[0].startswith("-")):
                value = option.bare
            if value is None:
                if not left:
                    raise self._error(f"{name} needs a value: {name} {option.metavar}")
                value = left.popleft()
            parsed = option.parse(value)
            values[key] = (*values.get(key, ()), parsed) if option.is_repeatable else parsed
        for key, kind in self._words.items():
            if not given:
                raise self._error(f"{kind.metavar} is missing")
            values[key] = tuple(given)
        return self._type(**values)

    def help_text(self, width: int) -> str:
        """Return the help of the command in lines of at most `width` columns."""
        from inspect import getdoc
        from textwrap import TextWrapper

        def wrap(text: str, first: str, rest: str) -> list[str]:
            wrapper = TextWrapper(width - 2, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
            return wrapper.wrap(text)

        blocks = (getdoc(self._run) or "").split("\n\n")
        operands = "".join(f" {kind.metavar}..." for kind in self._words.values())
        lines = [f"Usage: zoea {self.name} [OPTIONS]{operands}", ""]
        for block in blocks:
            lines += [*wrap(block, "  ", "  "), ""]
        rows = [*self._fields.values(), Option((HELP,), "Show this message and exit.")]
        column = max(len(row.usage) for row in rows) + 4
        for kind in self._words.values():
            lines += ["Arguments:", *wrap(kind.help, f"  {kind.metavar}".ljust(column), " " * column), ""]
        lines.append("Options:")
        for row in rows:
            lines += wrap(row.help, f"  {row.usage}".ljust(column), " " * column)
        return "\n".join(lines)

    def _unknown(self, word: str, name: str, names: list[str]) -> UsageError:
        from difflib import get_close_matches

        if not name.startswith("-"):
            return self._error(f"there is no argument {word!r}; `zoea {self.name}` takes options only")
        near = get_close_matches(name, names, n=1)
        return self._error(f"there is no option {name}" + (f"; did you mean {near[0]}?" if near else ""))

    def _error(self, what: str) -> UsageError:
        return UsageError(what, hint=f"`zoea {self.name} --help` shows its options.")


def _split(word: str) -> tuple[str, str | None]:
    """Split `--name=value` and `-nvalue`; the value is None where the word has none."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return name, value if equals else None
    if word.startswith("-") and len(word) > 2:
        return word[:2], word[2:]
    return word, None
