"""Replace the words that typer and pydantic write in help texts and errors, for people who know neither."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import Any

from zoea.model.errors import UsageError

_RANGE = re.compile(r"(-?[\d.]+)<=x<=(-?[\d.]+)")
_LEAST = re.compile(r"x>=(-?[\d.]+)")
_ERRORS = (
    (re.compile(r"Input should be a valid integer\b.*"), "it is not a whole number"),
    (re.compile(r"Input should be a valid number\b.*"), "it is not a number"),
    (re.compile(r"Input should be greater than or equal to (\S+)"), r"it is less than \1"),
    (re.compile(r"Input should be less than or equal to (\S+)"), r"it is more than \1"),
    (re.compile(r"Value error, "), ""),
    (re.compile(r" \(Possible options: (.+)\)"), r"; did you mean \1?"),
    (re.compile(r"Got unexpected extra argument\(s\) \((.+)\)"), r"It takes no further arguments: \1"),
    (re.compile(r" requires an argument\.?$"), " needs a value"),
)
"""Patterns of messages, and what is said instead."""


def describe_error(message: str) -> str:
    """Return the message of a wrong command line in words, without a full stop."""
    for pattern, words in _ERRORS:
        message = pattern.sub(words, message)
    return message.rstrip(".")


def simplify_help(command: Any) -> Any:
    """Leave the types of arguments out of the help of a typer command, and write ranges in words. Return it."""
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: None
        parameter.get_help_record = _with_words(parameter.get_help_record)
    for below in getattr(command, "commands", {}).values():
        simplify_help(below)
    return command


def _with_words(read: Any) -> Any:
    """Wrap the method that returns the names and the help of a parameter."""

    def read_in_words(ctx: Any) -> tuple[str, str] | None:
        row = read(ctx)
        return None if row is None else (row[0], _LEAST.sub(r"at least \1", _RANGE.sub(r"\1 to \2", row[1])))

    return read_in_words


_UNKNOWN_COMMAND = re.compile(r"No such command '(.*?)'")


class TyperCommand:
    """A command whose options are annotations of typer."""

    def __init__(self, name: str, place: str) -> None:
        import typer

        self._path = f"zoea {name}"
        module, attribute = place.split(":")
        described = getattr(import_module(f"zoea.cli.commands.{module}"), attribute)
        around = typer.Typer(add_completion=False, rich_markup_mode=None)
        if isinstance(described, typer.Typer):
            around.add_typer(described, name=name)
            self.command = simplify_help(typer.main.get_group(around).commands[name])
        else:
            around.command(name)(described)
            self.command = simplify_help(typer.main.get_command(around))

    def run(self, typed: list[str]) -> int:
        """Run a command line and return the exit code."""
        import typer

        from zoea.cli.dispatch import nearest

        try:
            code = self.command.main(args=typed, prog_name=self._path, standalone_mode=False)
        except typer.Abort:
            raise KeyboardInterrupt from None
        except SystemExit as ended:
            # typer turns a broken pipe into exit code 1; `zoea.__main__` has its own exit code for it.
            if isinstance(cause := ended.__context__, BrokenPipeError):
                raise cause from None
            raise
        except typer.TyperException as wrong:
            message = wrong.format_message() if hasattr(wrong, "format_message") else str(wrong)
            context = getattr(wrong, "ctx", None)
            path = context.command_path if context is not None else self._path
            if below := getattr(getattr(context, "command", None), "commands", None):
                if type(wrong).__name__ == "NoArgsIsHelpError":
                    sys.stdout.write(f"{message}\n")
                    return 0
                if unknown := _UNKNOWN_COMMAND.match(message):
                    raise UsageError(
                        f"there is no command `{path} {unknown[1]}`", hint=nearest(unknown[1], below, path)
                    ) from None
            hint = f"`{path} --help` shows its arguments and options."
            raise UsageError(describe_error(message), hint=hint) from None
        return code if isinstance(code, int) else 0
