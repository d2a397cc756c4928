"""Command lines that are described by parameters: their parsing and their help.

A command is a function whose parameters have descriptions as defaults. It does without a library: click would double
what `zoea list` loads besides Zoea, and argparse takes no value that begins with a dash.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields
from inspect import cleandoc
from typing import Any

from msgspec import Struct

from zoea.model.errors import UsageError

WORKSPACE_HELP = "Workspace; if not given, ZOEA_WORKSPACE or the settings name it."
WIDEST = 80
"""Columns of the help text in a wider terminal."""
_TERM = 30
"""Columns that the names of an option may take before its help text begins on the next line."""
LARGEST_ID = 2**63 - 1
"""The largest row id that SQLite can hold."""


class _Required:
    """The default of a parameter that has to be given."""


REQUIRED = _Required()


class WrongValue(ValueError):
    """The text of a value cannot be read; `problem` follows the name of the option."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint


class Parameter(Struct, frozen=True):
    """An option on the command line, or a word that is no option.

    Attributes:
        names: The names of an option, the short one first; empty for a word.
        metavar: Stands for the value in the help; empty for a flag, which takes none.
        default: The value if it is not given; `REQUIRED` for none.
        read: Converts the text of a value. It raises WrongValue or UsageError.
        is_many: True if it may be repeated; the value is a tuple then.
        bare: The value of an option that is given without one; None where it needs one.
        off: The name that sets a flag to False.
        is_name: True for a word that names a mysis, which shells complete.
    """

    names: tuple[str, ...]
    metavar: str
    text: str
    default: Any = REQUIRED
    read: Callable[[str], Any] = str
    is_many: bool = False
    bare: str | None = None
    off: str = ""
    is_name: bool = False

    @property
    def title(self) -> str:
        return self.names[-1] if self.names else self.metavar

    @property
    def usage(self) -> str:
        if not self.names:
            return self.metavar
        return " ".join(filter(None, (", ".join(self.names), self.metavar, self.off and f"/ {self.off}")))

    @property
    def operand(self) -> str:
        """The word in the usage line, in brackets if it may be left out."""
        word = self.metavar if self.default is REQUIRED else f"[{self.metavar}]"
        return f"{word}..." if self.is_many else word

    @property
    def help(self) -> str:
        """The help text with the default and the limits of the value."""
        shown = isinstance(self.default, int | float | str) and self.metavar and str(self.default)
        parts = (f"default: {self.default}" if shown else "", getattr(self.read, "limits", ""))
        notes = ["required"] if self.default is REQUIRED else [part for part in parts if part]
        return f"{self.text}  [{'; '.join(notes)}]" if notes else self.text

    def convert(self, text: str) -> Any:
        """Return the value that a text stands for. Raises UsageError."""
        try:
            return self.read(text)
        except WrongValue as wrong:
            raise UsageError(f"{self.title} {wrong.problem}", hint=wrong.hint) from None


HELP = Parameter(("--help",), "", "Show this message and exit.", False)


def option(
    usage: str, text: str, default: Any = "", read: Callable[[str], Any] = str, *, bare: str | None = None
) -> Any:
    """Describe an option with a value.

    Args:
        usage: Its names and what stands for the value, as the help shows them: `-n, --last N`.
        bare: The value of the option without one, for a command without words.
    """
    names, metavar = _split_usage(usage)
    return Parameter(names, metavar or f"<{'|'.join(getattr(read, 'values', ()))}>", text, default, read, bare=bare)


def options(usage: str, text: str, read: Callable[[str], Any] = str) -> Any:
    """Describe an option that may be repeated; the value is a tuple."""
    names, metavar = _split_usage(usage)
    return Parameter(names, metavar, text, (), read, is_many=True)


def flag(usage: str, text: str, default: bool | None = False, *, off: str = "") -> Any:
    """Describe an option without a value. `off` is the name that sets it to False."""
    return Parameter(_split_usage(usage)[0], "", text, default, off=off)


def argument(
    metavar: str, text: str, default: Any = REQUIRED, read: Callable[[str], Any] = str, *, is_name: bool = False
) -> Any:
    """Describe a word that is no option."""
    return Parameter((), metavar, text, default, read, is_name=is_name)


def arguments(
    metavar: str, text: str, default: Any = REQUIRED, read: Callable[[str], Any] = str, *, is_name: bool = False
) -> Any:
    """Describe all further words as a tuple: the last word of a command."""
    return Parameter((), metavar, text, default, read, is_many=True, is_name=is_name)


def declare(parameter: Any) -> Any:
    """Return a dataclass field with a parameter, for commands that share their options."""
    return field(default=parameter.default, metadata={"parameter": parameter})


def _split_usage(usage: str) -> tuple[tuple[str, ...], str]:
    """Split `-n, --last N` into its names and the word for its value."""
    words = usage.replace(",", "").split()
    return tuple(word for word in words if word[0] == "-"), " ".join(word for word in words if word[0] != "-")


class _Choice(Struct, frozen=True):
    values: tuple[str, ...]
    convert: Callable[[str], Any]

    def __call__(self, text: str) -> Any:
        if text not in self.values:
            raise WrongValue(f"{text!r:.60} is unknown", f"Give one of {', '.join(self.values)}.")
        return self.convert(text)


def choice(values: Iterable[str]) -> Callable[[str], Any]:
    """Return a reader of one of these values; of an enumeration, it returns the member."""
    return _Choice(tuple(map(str, values)), values if isinstance(values, type) else str)


class _Number(Struct, frozen=True):
    kind: Callable[[str], Any]
    lowest: float | None
    highest: float | None

    @property
    def limits(self) -> str:
        """The limits in words; empty for none."""
        if self.lowest is None:
            return ""
        return f"at least {self.lowest:g}" if self.highest is None else f"{self.lowest:g} to {self.highest:.10g}"

    def __call__(self, text: str) -> Any:
        end = "on" if self.highest is None else f"to {self.highest:.10g}"
        hint = "Give a number." if self.lowest is None else f"Give a number from {self.lowest:g} {end}."
        try:
            number = self.kind(text)
        except ValueError:
            raise WrongValue(f"{text!r:.60} is not a {'whole ' * (self.kind is int)}number", hint) from None
        if (self.lowest is not None and not number >= self.lowest) or (self.highest and not number <= self.highest):
            raise WrongValue(f"{text:.60} is out of range", hint)
        return number


def whole_number(lowest: int | None = None, highest: int | None = None) -> Callable[[str], int]:
    """Return a reader of whole numbers within limits."""
    return _Number(int, lowest, highest)


def number(lowest: float | None = None, highest: float | None = None) -> Callable[[str], float]:
    """Return a reader of numbers within limits."""
    return _Number(float, lowest, highest)


def row_id(text: str) -> int:
    """Read the id of a row. Raises WrongValue and UsageError."""
    found = whole_number()(text)
    if not 0 < found <= LARGEST_ID:
        raise UsageError(f"there is no id {found}")
    return found


WORKSPACE = option("-w, --workspace NAME", WORKSPACE_HELP)
AS_JSON = flag("--json", "Write JSON.")


def read_parameters(described: Any) -> dict[str, Parameter]:
    """Return the parameters of a function or of a dataclass of options, by their names."""
    if isinstance(described, type):
        return {one.name: one.metadata["parameter"] for one in fields(described) if "parameter" in one.metadata}
    defaults = described.__defaults__ or ()
    names = described.__code__.co_varnames[: described.__code__.co_argcount]
    pairs = zip(names[len(names) - len(defaults) :], defaults, strict=True)
    return {name: default for name, default in pairs if isinstance(default, Parameter)}


class CommandLine:
    """The command line of one command.

    Args:
        path: The words that call it, as `zoea ctx log`.
        parameters: Its options and words by the names that the values get.
        about: The docstring that the help begins with.
        summarize: Returns names and summaries of the commands below it; None where there are none.

    Attributes:
        words: The parameters that are no options.
    """

    def __init__(
        self,
        path: str,
        parameters: Mapping[str, Parameter],
        about: str,
        summarize: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self.path = path
        self.about = cleandoc(about)
        self.parameters = parameters
        self._summarize = summarize
        self.words = {key: one for key, one in parameters.items() if not one.names}
        self._options = {name: (key, one) for key, one in parameters.items() for name in (*one.names, one.off) if name}

    @property
    def option_names(self) -> tuple[str, ...]:
        return (*self._options, *HELP.names)

    @property
    def takes_text(self) -> bool:
        """Return whether its last words are a text."""
        return bool(self.words) and [*self.words.values()][-1].metavar == "TEXT"

    def parse(self, typed: Iterable[str], *, is_prompt: bool = False) -> dict[str, Any] | None:
        """Return all values of a command line; None if it asks for help. The last of equal options counts.

        Args:
            is_prompt: The line was typed at a prompt of Zoea, where all is text from the first word of a text on.

        Raises:
            UsageError: An option is unknown, lacks its value, or has a wrong one; a word is missing or too many.
        """
        values: dict[str, Any] = {}
        words: list[str] = []
        left = deque(typed)
        before_text = len(self.words) - 1 if is_prompt and self.takes_text else None
        while left:
            word = left.popleft()
            is_text = before_text is not None and len(words) >= before_text
            if is_text and (len(words) != before_text or _split(word)[0] not in (*self.option_names, "--")):
                words += [word, *left]
                break
            if self.words and word == "--":
                words += left
                break
            if self.words and (word == "-" or not word.startswith("-")):
                words.append(word)
                continue
            name, value = _split(word)
            if name in HELP.names:
                return None
            if name not in self._options:
                raise self._unknown(word, name)
            key, option = self._options[name]
            if not option.metavar:
                if value is not None and word.startswith("--"):
                    raise self._error(f"{name} takes no value")
                values[key] = name != option.off
                if value is not None:  # `-yv` is `-y -v`
                    left.appendleft(f"-{value}")
                continue
            if value is None and option.bare is not None and (not left or left[0].startswith("-")):
                value = option.bare
            if value is None:
                if not left:
                    raise self._error(f"{name} needs a value: {name} {option.metavar}")
                value = left.popleft()
            read = option.convert(value)
            values[key] = (*values.get(key, ()), read) if option.is_many else read
        values |= self._assign(words)
        for key, one in self.parameters.items():
            if values.setdefault(key, one.default) is REQUIRED:
                raise self._error(f"{one.title} is missing")
        return values

    def _assign(self, words: list[str]) -> dict[str, Any]:
        """Give the words that are no options to the parameters, in their order."""
        values: dict[str, Any] = {}
        left = deque(words)
        for key, one in self.words.items():
            if left and one.is_many:
                values[key] = tuple(map(one.convert, left))
                left.clear()
            elif left:
                values[key] = one.convert(left.popleft())
        if left:
            raise self._error(f"it takes no further arguments: {' '.join(left)}")
        return values

    def help_text(self, width: int) -> str:
        """Return the help of the command in lines of at most `width` columns."""
        operands = [one.operand for one in self.words.values()]
        tail = operands if self._summarize is None else ["COMMAND [ARGS]..."]
        lines = [" ".join(["Usage:", self.path, "[OPTIONS]", *tail]), ""]
        for block in self.about.split("\n\n"):
            lines += [*_wrap(block, width, "  ", "  "), ""]
        rows = [one for one in self.parameters.values() if one.names]
        lines += _table("Arguments", [(one.usage, one.help) for one in self.words.values()], width)
        lines += _table("Options", [(one.usage, one.help) for one in (*rows, HELP)], width)
        lines += _table("Commands", list(self._summarize().items()) if self._summarize else [], width)
        return "\n".join(lines[:-1])

    def _unknown(self, word: str, name: str) -> UsageError:
        from difflib import get_close_matches

        if not name.startswith("-"):
            return self._error(f"there is no argument {word!r}; `{self.path}` takes options only")
        near = get_close_matches(name, self.option_names, n=1)
        return self._error(f"there is no option {name}" + (f"; did you mean {near[0]}?" if near else ""))

    def _error(self, what: str) -> UsageError:
        return UsageError(what, hint=f"`{self.path} --help` shows its options.")


def _split(word: str) -> tuple[str, str | None]:
    """Split `--name=value` and `-nvalue`; the value is None where the word has none."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return name, value if equals else None
    if word.startswith("-") and len(word) > 2:
        return word[:2], word[2:]
    return word, None


def _table(title: str, rows: list[tuple[str, str]], width: int) -> list[str]:
    """Return a section of the help; nothing without rows."""
    if not rows:
        return []
    column = min(max(len(term) for term, _ in rows), _TERM) + 4
    lines = [f"{title}:"]
    for term, text in rows:
        first = f"  {term}".ljust(column)
        if len(term) > column - 4:
            lines.append(first)
            first = " " * column
        lines += _wrap(text, width, first, " " * column)
    return [*lines, ""]


def _wrap(text: str, width: int, first: str, rest: str) -> list[str]:
    from textwrap import TextWrapper

    wrapper = TextWrapper(width - 2, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return wrapper.wrap(text)
